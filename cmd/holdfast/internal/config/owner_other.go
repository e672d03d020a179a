//go:build !unix

package config

import "os"

// trusted reports true: there is no owner to compare.
func trusted(os.FileInfo) bool { return true }
