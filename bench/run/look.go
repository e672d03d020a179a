package run

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/stores"
)

// look is what the servers and the machine have done so far.
type look struct {
	at      time.Time
	servers map[peer.Store]stores.Work
	busy    time.Duration // all cores of the machine; 0 where that is unknown
	own     time.Duration // of this process and its proxies
}

// look asks every server once.
func (r *Runner) look(ctx context.Context) (look, error) {
	l := look{at: time.Now(), busy: machineBusy(), own: stores.CPU(os.Getpid()), servers: map[peer.Store]stores.Work{}}
	for _, p := range r.proxies {
		l.own += stores.CPU(p.PID())
	}
	for store, s := range r.servers {
		done, err := s.Done(ctx)
		if err != nil {
			return l, err
		}
		l.servers[store] = done
	}
	return l, nil
}

// sub returns what was done between two looks.
func (l look) sub(before look) difference {
	d := difference{
		elapsed: l.at.Sub(before.at), servers: map[peer.Store]stores.Work{},
		others: l.busy - before.busy - (l.own - before.own), known: l.busy > 0,
	}
	for store, now := range l.servers {
		then := before.servers[store]
		d.servers[store] = stores.Work{Requests: now.Requests - then.Requests, Calls: now.Calls - then.Calls, Accepted: now.Accepted - then.Accepted, CPU: now.CPU - then.CPU}
	}
	return d
}

type difference struct {
	elapsed time.Duration
	servers map[peer.Store]stores.Work
	others  time.Duration // of all processes but this one
	known   bool          // others is
}

// into fills in what a sample says of its server and of other programs.
func (d difference) into(s *report.Sample, store peer.Store) {
	done := d.servers[store]
	s.Commands, s.Calls, s.Accepted, s.ServerCPU = done.Requests, done.Calls, done.Accepted, done.CPU
	if !d.known {
		return
	}
	foreign := d.others - s.CPU
	for _, done := range d.servers {
		foreign -= done.CPU
	}
	s.Foreign = max(0, foreign.Seconds()/d.elapsed.Seconds())
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
