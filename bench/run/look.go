package run

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/report"
)

// look is what the servers and the machine have done so far.
type look struct {
	at       time.Time
	commands int64
	calls    int64
	redisCPU time.Duration
	etcdCPU  time.Duration
	busy     time.Duration // all cores of the machine; 0 where that is unknown
	own      time.Duration // of this process
}

// look asks the server with one command.
func (r *Runner) look() (look, error) {
	l := look{at: time.Now(), busy: machineBusy(), own: ownCPU()}
	if r.etcd != nil {
		l.etcdCPU = processCPU(r.etcd.cmd.Process.Pid)
	}
	switch reply := r.redis.Do("INFO", "all").(type) {
	case string:
		return l, l.parse(reply)
	case error:
		return l, reply
	default:
		return l, fmt.Errorf("INFO answered %T", reply)
	}
}

// parse reads the server's INFO. What Runner itself sends does not count.
func (l *look) parse(info string) error {
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		var err error
		switch {
		case key == "used_cpu_sys", key == "used_cpu_user":
			var seconds float64
			seconds, err = strconv.ParseFloat(value, 64)
			l.redisCPU += time.Duration(seconds * float64(time.Second))
		case strings.HasPrefix(key, "cmdstat_"):
			err = l.command(strings.TrimPrefix(key, "cmdstat_"), value)
		}
		if err != nil {
			return fmt.Errorf("INFO says %q: %w", line, err)
		}
	}
	return nil
}

func (l *look) command(name, stats string) error {
	if name == "info" || name == "flushall" {
		return nil
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
	calls, err := strconv.ParseInt(text, 10, 64)
	l.commands += calls
	if name == "eval" || name == "evalsha" {
		l.calls += calls
	}
	return err
}

// sub returns what was done between two looks.
func (l look) sub(before look) difference {
	return difference{
		elapsed: l.at.Sub(before.at), commands: l.commands - before.commands, calls: l.calls - before.calls,
		redisCPU: l.redisCPU - before.redisCPU, etcdCPU: l.etcdCPU - before.etcdCPU,
		others: l.busy - before.busy - (l.own - before.own), known: l.busy > 0,
	}
}

type difference struct {
	elapsed           time.Duration
	commands, calls   int64
	redisCPU, etcdCPU time.Duration
	others            time.Duration // of all processes but this one
	known             bool          // others is
}

// into fills in what a sample says of the servers and of other programs.
func (d difference) into(s *report.Sample, etcd bool) {
	s.Commands, s.Calls, s.ServerCPU = d.commands, d.calls, d.redisCPU
	if etcd {
		s.ServerCPU = d.etcdCPU
	}
	if d.known {
		foreign := d.others - d.redisCPU - d.etcdCPU - s.CPU
		s.Foreign = max(0, foreign.Seconds()/d.elapsed.Seconds())
	}
}

// tick is the unit of times under /proc.
const tick = 10 * time.Millisecond

// machineBusy returns how long all cores together have worked since the machine
// started, or 0 where there is no /proc.
func machineBusy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var ticks int64
	for i, word := range strings.Fields(line) {
		n, _ := strconv.ParseInt(word, 10, 64)
		if i >= 1 && i <= 8 && i != 4 && i != 5 { // user to steal, without idle and iowait
			ticks += n
		}
	}
	return time.Duration(ticks) * tick
}

// processCPU returns how long a process has worked, or 0 where there is no /proc.
func processCPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name, which may contain blanks
	words := strings.Fields(rest)
	if len(words) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(words[11], 10, 64)
	system, _ := strconv.ParseInt(words[12], 10, 64)
	return time.Duration(user+system) * tick
}

func ownCPU() time.Duration { return processCPU(os.Getpid()) }
