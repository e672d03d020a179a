package run

import (
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
)

// cores says who runs where. The zero value pins nobody.
type cores struct{ last int }

// pin puts the servers on the first core, and keeps the clients off it.
func (r *Runner) pin() {
	n := runtime.NumCPU()
	if _, err := exec.LookPath("taskset"); err != nil || !r.Pin || n < 2 {
		return
	}
	for _, s := range r.servers {
		if err := exec.Command("taskset", "-apc", "0", strconv.Itoa(s.PID())).Run(); err != nil {
			fmt.Fprintf(r.Log, "nobody is pinned: taskset: %v\n", err)
			return
		}
	}
	r.cores = cores{last: n - 1}
}

// server is what stands before the command of a program beside the servers.
func (c cores) server() []string {
	if c.last == 0 {
		return nil
	}
	return []string{"taskset", "-c", "0"}
}

// clients is what stands before the command of a client.
func (c cores) clients() []string {
	if c.last == 0 {
		return nil
	}
	return []string{"taskset", "-c", fmt.Sprintf("1-%d", c.last)}
}

// String says who runs where, for people.
func (c cores) String() string {
	switch c.last {
	case 0:
		return "servers and clients share all cores"
	case 1:
		return "the server on one core, the clients on another"
	default:
		return fmt.Sprintf("the server on one core, the clients on %d others", c.last)
	}
}
