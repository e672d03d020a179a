package judge

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Queued returns for how long the threads of a process have waited for a processor,
// in all; 0 where the system does not say.
func Queued(pid int) (sum time.Duration) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if fields := strings.Fields(string(text)); err == nil && len(fields) == 3 {
			ns, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

// Queued is Queued of the process.
func (p *Process) Queued() time.Duration { return Queued(p.cmd.Process.Pid) }
