// Package run starts the servers and the measuring processes, and takes samples.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/stores"
	"github.com/holdfast-go/holdfast/bench/work"
)

// Options are the settings of Start.
type Options struct {
	Dir      string       // for all files; the caller's to remove
	Child    []string     // the command that calls work.Serve
	Network  []string     // the command of a proxy of package delay, without its three arguments
	Stores   []peer.Store // what to start
	Settings stores.Settings
	Pin      bool      // servers on the first core, clients on the others, where that is possible
	Log      io.Writer // what goes on, for people
}

// Runner takes samples, one after the other, against servers of its own.
type Runner struct {
	Options
	servers map[peer.Store]stores.Server
	proxies map[peer.Duration]*stores.Network // before Redis, by what they add to a round trip
	cores   cores
	page    string
}

// Start starts the servers. It returns redistest.ErrMissing where there is no
// redis-server. The Runner must be closed.
func Start(o Options) (*Runner, error) {
	r := &Runner{Options: o, page: filepath.Join(o.Dir, "page"), servers: map[peer.Store]stores.Server{}, proxies: map[peer.Duration]*stores.Network{}}
	for _, store := range o.Stores {
		s, err := stores.Start(store, o.Settings, o.Dir)
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("start %s: %w", store, err)
		}
		r.servers[store] = s
	}
	r.pin()
	return r, nil
}

// Close ends the servers.
func (r *Runner) Close() {
	for _, p := range r.proxies {
		p.Close()
	}
	for _, s := range r.servers {
		s.Close()
	}
}

// Pinned says where the servers and the clients run, for people.
func (r *Runner) Pinned() string { return r.cores.String() }

// Size says how long a sample is.
type Size struct {
	Warm   time.Duration
	Sample time.Duration // 0: until Pairs are done
	Pairs  int           // by each process
}

// compiling is how many times as long as others a process warms up that compiles meanwhile.
const compiling = 20

// Sample lets new processes do a work with a peer, once.
func (r *Runner) Sample(ctx context.Context, w work.Work, p peer.Spec, size Size) (report.Sample, error) {
	if p.Compiles { // the processes share the cores of the clients
		size.Warm *= time.Duration(compiling * w.Processes)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute+2*(size.Warm+size.Sample))
	defer cancel()
	if err := r.reset(ctx); err != nil {
		return report.Sample{}, err
	}
	target, err := r.target(w)
	if err != nil {
		return report.Sample{}, err
	}
	command := r.Child
	if p.Program != nil {
		if command, err = p.Program(target); err != nil {
			return report.Sample{}, err
		}
	}
	team := &team{}
	defer team.close()
	for i := range w.Processes {
		if err := team.start(ctx, r.command(ctx, command), r.plan(w, p, target, size, i)); err != nil {
			return report.Sample{}, err
		}
	}
	if err := team.hear(work.Ready); err != nil {
		return report.Sample{}, err
	}
	done, err := r.watch(ctx, team)
	if err != nil {
		return report.Sample{}, err
	}
	sample, err := team.results()
	done.into(&sample, p.Store())
	return sample, err
}

// watch lets the processes measure, and returns what the servers did meanwhile.
func (r *Runner) watch(ctx context.Context, team *team) (difference, error) {
	before, err := r.look(ctx)
	if err != nil {
		return difference{}, err
	}
	if err := errors.Join(team.say(work.Go), team.hear(work.Done)); err != nil {
		return difference{}, err
	}
	after, err := r.look(ctx)
	if err != nil {
		return difference{}, err
	}
	return after.sub(before), team.say(work.End)
}

// target says where the servers are for a work.
func (r *Runner) target(w work.Work) (peer.Target, error) {
	target := peer.Target{TTL: w.TTL}
	for _, s := range r.servers {
		s.Reach(&target)
	}
	if w.Delay == 0 {
		return target, nil
	}
	proxy := r.proxies[w.Delay]
	if proxy == nil {
		var err error
		command := append(r.cores.server(), r.Network...)
		if proxy, err = stores.StartNetwork(command, r.Dir, target.Redis, time.Duration(w.Delay)/2); err != nil {
			return target, fmt.Errorf("start a network: %w", err)
		}
		r.proxies[w.Delay] = proxy
	}
	target.Redis, target.Pool = proxy.Addr(), w.Goroutines
	return target, nil
}

// plan is the plan of process number i.
func (r *Runner) plan(w work.Work, p peer.Spec, target peer.Target, size Size, i int) work.Plan {
	return work.Plan{
		Peer: p.Name, Target: target, Work: w, Process: i, Page: r.page,
		Warm: peer.Duration(size.Warm), Sample: peer.Duration(size.Sample), Pairs: size.Pairs,
	}
}

// reset makes the servers as good as new.
func (r *Runner) reset(ctx context.Context) error {
	for store, s := range r.servers {
		if err := s.Empty(ctx); err != nil {
			return fmt.Errorf("empty %s: %w", store, err)
		}
	}
	return work.NewPage(r.page)
}
