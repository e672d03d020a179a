//go:build !unix

package config

import "os"

// trusted reports true: there is no owner to compare.
func trusted(os.FileInfo) bool { return true }

// othersMay reports false: there are no permissions to compare.
func othersMay(os.FileInfo) (read, write bool) { return false, false }
