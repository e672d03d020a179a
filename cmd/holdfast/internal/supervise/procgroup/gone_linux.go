package procgroup

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// gone reports whether no process of the group runs any more. Dead processes that were not
// reaped do not count: in a container whose first process does not reap, they stay forever.
func gone(pgid int) bool {
	if errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) {
		return true
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, stat := range stats {
		if runsIn(stat, pgid) {
			return false
		}
	}
	return true
}

// runsIn reports whether the process of a stat file (see proc(5)) is a living
// member of the group.
func runsIn(stat string, pgid int) bool {
	text, err := os.ReadFile(stat)
	if err != nil {
		return false // ended meanwhile
	}
	_, text, _ = bytes.Cut(text[bytes.LastIndexByte(text, ')')+1:], []byte(" ")) // the name may have any bytes
	fields := bytes.Fields(text)
	if len(fields) < 3 {
		return false
	}
	state, group := fields[0][0], string(fields[2])
	return group == strconv.Itoa(pgid) && state != 'Z' && state != 'X'
}
