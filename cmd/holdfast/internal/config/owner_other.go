//go:build !unix

package config

import "os"

// owner returns false, because files have no owners on this system.
func owner(os.FileInfo) (uid int, known bool) { return 0, false }
