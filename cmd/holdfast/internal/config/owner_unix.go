//go:build unix

package config

import (
	"os"
	"syscall"
)

// trusted reports that nobody but the user and root can have written the file.
func trusted(info os.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	own := !ok || owner.Uid == 0 || int(owner.Uid) == os.Geteuid()
	return own && info.Mode().IsRegular() && info.Mode().Perm()&0o022 == 0
}
