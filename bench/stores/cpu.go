package stores

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times under /proc.
const tick = 10 * time.Millisecond

// CPU returns how long a process has worked, with those of its children that have ended,
// or 0 where there is no /proc.
func CPU(pid int) time.Duration {
	words := stat(pid)
	if len(words) < 15 {
		return 0
	}
	var ticks int64
	for _, word := range words[11:15] { // user and system, then those of children
		n, _ := strconv.ParseInt(word, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * tick
}

// stat returns what the system says of a process, behind its name.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may contain blanks
	return strings.Fields(rest)
}

// family returns a process and its children.
func family(pid int) []int {
	all := []int{pid}
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range found {
		other, _ := strconv.Atoi(filepath.Base(path))
		if words := stat(other); len(words) > 1 && words[1] == strconv.Itoa(pid) {
			all = append(all, other)
		}
	}
	return all
}

// worked returns how long a process and its children have worked.
func worked(pid int) (sum time.Duration) {
	for _, one := range family(pid) {
		sum += CPU(one)
	}
	return sum
}
