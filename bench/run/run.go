// Package run starts the servers and the measuring processes, and takes samples.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/work"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// Options are the settings of Start.
type Options struct {
	Dir   string    // for all files; the caller's to remove
	Child []string  // the command that calls work.Serve
	Etcd  string    // the program; "" to do without
	Pin   bool      // servers on the first core, clients on the others, where that is possible
	Log   io.Writer // what goes on, for people
}

// Runner takes samples, one after the other, against servers of its own.
type Runner struct {
	Options
	redis *redistest.Server
	etcd  *etcd // nil if there is none
	cores cores
	page  string
}

// Start starts the servers. It returns redistest.ErrMissing where there is no
// redis-server. The Runner must be closed.
func Start(o Options) (*Runner, error) {
	r := &Runner{Options: o, page: filepath.Join(o.Dir, "page")}
	for _, dir := range []string{"redis", "etcd"} {
		if err := os.MkdirAll(filepath.Join(o.Dir, dir), 0o700); err != nil {
			return nil, err
		}
	}
	var err error
	if r.redis, err = redistest.Run(filepath.Join(o.Dir, "redis")); err != nil {
		return nil, err
	}
	if o.Etcd != "" {
		if r.etcd, err = startEtcd(o.Etcd, filepath.Join(o.Dir, "etcd")); err != nil {
			r.Close()
			return nil, err
		}
	}
	r.pin()
	return r, nil
}

// Close ends the servers.
func (r *Runner) Close() {
	r.redis.Close()
	if r.etcd != nil {
		r.etcd.close()
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

// Sample lets new processes do a work with a peer, once.
func (r *Runner) Sample(ctx context.Context, w work.Work, p peer.Spec, size Size) (report.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute+2*(size.Warm+size.Sample))
	defer cancel()
	if err := r.reset(ctx); err != nil {
		return report.Sample{}, err
	}
	team := &team{}
	defer team.close()
	for i := range w.Processes {
		if err := team.start(ctx, r.command(ctx), r.plan(w, p, size, i)); err != nil {
			return report.Sample{}, err
		}
	}
	if err := team.hear(work.Ready); err != nil {
		return report.Sample{}, err
	}
	done, err := r.watch(team)
	if err != nil {
		return report.Sample{}, err
	}
	sample, err := team.results()
	done.into(&sample, p.Client == "etcd")
	return sample, err
}

// watch lets the processes measure, and returns what the servers did meanwhile.
func (r *Runner) watch(team *team) (difference, error) {
	before, err := r.look()
	if err != nil {
		return difference{}, err
	}
	if err := errors.Join(team.say(work.Go), team.hear(work.Done)); err != nil {
		return difference{}, err
	}
	after, err := r.look()
	if err != nil {
		return difference{}, err
	}
	return after.sub(before), team.say(work.End)
}

// plan is what process number i is told.
func (r *Runner) plan(w work.Work, p peer.Spec, size Size, i int) work.Plan {
	target := peer.Target{Redis: r.redis.Addr(), TTL: w.TTL}
	if r.etcd != nil {
		target.Etcd = r.etcd.url
	}
	return work.Plan{
		Peer: p.Name, Target: target, Work: w, Process: i, Page: r.page,
		Warm: peer.Duration(size.Warm), Sample: peer.Duration(size.Sample), Pairs: size.Pairs,
	}
}

// reset makes the servers as good as new.
func (r *Runner) reset(ctx context.Context) error {
	if err, ok := r.redis.Do("FLUSHALL").(error); ok {
		return fmt.Errorf("empty the server: %w", err)
	}
	if r.etcd != nil {
		if err := r.etcd.empty(ctx); err != nil {
			return err
		}
	}
	return work.NewPage(r.page)
}
