package config

import (
	"fmt"
	"io"
	"os"
	"time"
)

// maxFile is the largest size of a file, in bytes. A file that was named by mistake, such as
// /dev/zero, must not fill the memory.
const maxFile = 1 << 20

// ReadFile reads a file: a configuration, certificates, passwords. It returns an error if the
// file has more than a megabyte.
func ReadFile(name string) ([]byte, error) { return ReadFileOrWait(name, nil) }

// ReadFileOrWait reads a file as ReadFile does. If that takes longer than two seconds, as with a
// pipe to which nobody writes, it calls the function `waiting` with the name, and goes on.
func ReadFileOrWait(name string, waiting func(name string)) ([]byte, error) {
	return readFile(os.Open, name, false, waiting)
}

// waitQuietly is how long a read may take before the user learns of it.
const waitQuietly = 2 * time.Second

// ReadLocal reads a file as ReadFile does, but only in the current folder or below it. For any
// other file, and for a link to one, it returns an error.
func ReadLocal(name string) ([]byte, error) {
	open := func(name string) (*os.File, error) { return os.OpenInRoot(".", name) }
	return readFile(open, name, false, nil)
}

// readFile reads a file. If onlyTrusted is true, a file that other users may have written is an
// error. readFile checks the opened file, and not the name, because the name may belong to
// another file at the time of the check. After the time waitQuietly it calls `waiting`, which may
// be nil.
func readFile(open func(string) (*os.File, error), name string, onlyTrusted bool, waiting func(string)) ([]byte, error) {
	if waiting != nil {
		timer := time.AfterFunc(waitQuietly, func() { waiting(name) })
		defer timer.Stop()
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if onlyTrusted {
		if info, err := file.Stat(); err != nil || !trusted(info) {
			return nil, fmt.Errorf("%s in this folder belongs to another user, or other users may write to it; if you trust the file, name it with --config", name)
		}
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s: the file is too long; it may have at most %d bytes", name, maxFile)
	}
	return content, err
}

// Exposed returns a warning if other users can write to the file called name, or if they can
// read it and it has a secret. Otherwise it returns "".
func Exposed(name string, secret bool) string {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if _, known := owner(info); !known {
		return ""
	}
	mode := info.Mode().Perm()
	switch {
	case mode&othersWrite != 0:
		return fmt.Sprintf("other users can write to %s; use chmod go-w", name)
	case mode&0o004 != 0 && secret:
		return fmt.Sprintf("other users can read %s; use chmod o-r", name)
	}
	return ""
}

// othersWrite are the permissions of the group and of all users to write.
const othersWrite = 0o022

// trusted reports whether only the user and root can have written the file.
func trusted(info os.FileInfo) bool {
	uid, known := owner(info)
	return !known || (uid == 0 || uid == os.Geteuid()) && info.Mode().IsRegular() && info.Mode().Perm()&othersWrite == 0
}
