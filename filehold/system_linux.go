package filehold

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/driver"
)

// fileSystems are those on which the tests of this package have run, by the number that statfs(2)
// returns.
func fileSystems() map[int64]string {
	return map[int64]string{0xef53: "ext4", 0x01021994: "tmpfs", 0x794c7630: "overlay"}
}

// refusedSystems are names for a message.
func refusedSystems() map[int64]string {
	return map[int64]string{
		0x6969: "NFS", 0xff534d42: "SMB", 0xfe534d42: "SMB", 0x517b: "SMB", 0x65735546: "FUSE (such as sshfs, or a folder of the host)",
		0x01021997: "9p (a folder of the host of a virtual machine)", 0x6a656a63: "virtiofs", 0x00c36400: "Ceph", 0x0bd00bd0: "Lustre",
		0x9123683e: "btrfs", 0x58465342: "XFS", 0x2fc12fc1: "ZFS", 0xf2f52010: "F2FS", 0x4d44: "FAT", 0x2011bab0: "exFAT", 0x5346544e: "NTFS",
	}
}

// suitable returns an error if the file system of a folder is not known to work.
func suitable(path string) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return fmt.Errorf("statfs %s: %w", path, err)
	}
	kind := int64(s.Type) & 0xffffffff //nolint:unconvert // another type on another processor
	if _, ok := fileSystems()[kind]; ok {
		return nil
	}
	name, ok := refusedSystems()[kind]
	if !ok {
		name = fmt.Sprintf("of an unknown kind (0x%x)", kind)
	}
	return refused("the file system of %s is %s: locks in a folder were tested on ext4, tmpfs and overlay, and may not exclude others elsewhere", path, name)
}

// tryFlock takes the flock of a file, if it is free.
func tryFlock(f *os.File) (locked bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// readClock returns the time since the start of the machine, with the time in which it slept. All
// processes of the machine have the same clock, and nobody can set it.
func readClock() time.Duration {
	const clockBoottime = 7
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0) //nolint:gosec // clock_gettime(2)
	if errno != 0 {
		panic("filehold: clock_gettime: " + errno.Error()) // the clock exists since Linux 2.6.39
	}
	return time.Duration(t.Nano())
}

// bootID identifies this start of the machine; unknownBoot if the system does not say it.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if id := strings.TrimSpace(string(data)); err == nil && id != "" && !strings.Contains(id, " ") {
		return id
	}
	return unknownBoot
}

// cause returns the error of package driver for an error of the operating system; nil if there is none.
func cause(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return driver.ErrUnable
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return driver.ErrDenied
	case errors.Is(err, fs.ErrNotExist):
		return driver.ErrRefused // the folder was removed
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil
	}
	return nil
}
