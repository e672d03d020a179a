//go:build !unix

package config

// trusted returns nil: there is no owner to compare.
func trusted(string) error { return nil }
