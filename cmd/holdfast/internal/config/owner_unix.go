//go:build unix

package config

import (
	"os"
	"syscall"
)

// owner returns the ID of the user who owns a file, and whether it is known.
func owner(info os.FileInfo) (uid int, known bool) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid), true
	}
	return 0, false
}
