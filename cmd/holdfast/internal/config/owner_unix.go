//go:build unix

package config

import (
	"fmt"
	"os"
	"syscall"
)

// trusted returns an error if others could have written the file.
func trusted(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("%s in this folder is somebody else's, or writable for everybody; name it with --config to use it all the same", name)
	}
	return nil
}
