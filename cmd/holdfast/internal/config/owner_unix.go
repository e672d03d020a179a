//go:build unix

package config

import (
	"os"
	"syscall"
)

// trusted reports whether only the user and root can have written the file.
func trusted(info os.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	own := !ok || owner.Uid == 0 || int(owner.Uid) == os.Geteuid()
	_, write := othersMay(info)
	return own && info.Mode().IsRegular() && !write
}

// othersMay reports what other users may do with a file. read is true if every user may read
// it. write is true if its group, or every user, may write to it.
func othersMay(info os.FileInfo) (read, write bool) {
	return info.Mode().Perm()&0o004 != 0, info.Mode().Perm()&0o022 != 0
}
