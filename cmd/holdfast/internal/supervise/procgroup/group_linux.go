package procgroup

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// commandAttr puts the command into group pgid from its first instruction. If the guard
// fails, the system still kills the command when its parent ends.
func commandAttr(pgid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: pgid, Pdeathsig: syscall.SIGKILL}
}

// stopped reports whether the process `pid` was stopped, for example by Ctrl-Z, since the last
// call of stopped.
func stopped(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
	return err == nil && info.Signo == int32(syscall.SIGCHLD)
}

// Gone reports whether no process of the group runs any more. It reads /proc, see proc(5). Dead
// processes that were not reaped do not count, because they stay forever in a container whose
// first process does not reap.
func Gone(pgid int) bool {
	if errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) {
		return true
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, stat := range stats {
		text, _ := os.ReadFile(stat) // nothing if the process has ended meanwhile
		// Behind the name, which may have any bytes, are the state, the parent and the group.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(pgid) && fields[0] != "Z" && fields[0] != "X" {
			return false
		}
	}
	return true
}
