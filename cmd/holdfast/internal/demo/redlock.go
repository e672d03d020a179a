package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/quorum"
)

const (
	racers    = 5
	raceWork  = 300 * time.Millisecond // how long each worker holds the lock
	raceLimit = 20 * time.Second
)

// race is the result of a race of workers for a lock that a majority of the servers has to
// grant. Times are in ms.
type race struct {
	Round    int         `json:"round"`
	Running  bool        `json:"running"`  // always false: the answer is sent at the end
	Workers  []raceEntry `json:"workers"`  // in the order in which they got the lock; workers without the lock are last
	Overlaps int         `json:"overlaps"` // how often two workers held the lock at once
	Took     ms          `json:"took_ms"`

	places, inside, overlaps atomic.Int64
}

// raceEntry is the result of one worker.
type raceEntry struct {
	Name   string   `json:"name"`
	Place  int      `json:"place,omitempty"` // 1 for the first worker that got the lock; 0 without the lock
	Waited ms       `json:"waited_ms"`
	Votes  []string `json:"votes"` // what each server answered: granted, refused or failed
	Error  string   `json:"error,omitempty"`
}

// voter is the backend of one server. It remembers the result of its last Try.
type voter struct {
	driver.Backend
	server *server
	tries  atomic.Int64

	mu    sync.Mutex
	vote  string
	voted int64 // the number of the Try whose result `vote` is
}

// Try asks the server, unless the worker is cut off from it.
func (v *voter) Try(ctx context.Context, c driver.Claim) (out driver.Outcome, err error) {
	number := v.tries.Add(1)
	if err = errCut; !v.server.Cut.Load() {
		out, err = v.Backend.Try(ctx, c)
	}
	vote := "refused"
	switch {
	case err != nil:
		vote = "failed"
	case out.Granted:
		vote = "granted"
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if number > v.voted { // an earlier Try may be answered later
		v.voted = number
		v.vote = vote
	}
	return out, err
}

func (v *voter) lastVote() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.vote
}

// race runs a race and returns its result. The caller lets only one race run at a time.
func (all servers) race(ctx context.Context, round int) *race {
	ctx, cancel := context.WithTimeoutCause(ctx, raceLimit, fmt.Errorf("no majority within %s", raceLimit))
	defer cancel()
	r := &race{Round: round, Workers: make([]raceEntry, racers)}
	began := time.Now()
	log := audit.New(all[0].backend, nil) // writes to the server that the dashboard shows
	var workers sync.WaitGroup
	for i := range r.Workers {
		r.Workers[i].Name = fmt.Sprintf("worker %d", i+1)
		workers.Go(func() { all.compete(ctx, log.Observe, r, &r.Workers[i]) })
	}
	workers.Wait()
	r.Overlaps, r.Took = int(r.overlaps.Load()), inMS(time.Since(began))
	slices.SortFunc(r.Workers, func(a, b raceEntry) int {
		return cmp.Compare(cmp.Or(a.Place, racers+1), cmp.Or(b.Place, racers+1))
	})
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer stop()
	_ = log.Flush(last) // entries that cannot be written are missing
	for _, s := range all {
		_ = s.shop.keepFor(last, s.shop.keys.counter()) // if the server is unreachable, the key stays
	}
	return r
}

// compete runs one worker, and records its result in e.
func (all servers) compete(ctx context.Context, observe func(context.Context, holdfast.Event), r *race, e *raceEntry) {
	var members []driver.Backend
	for _, s := range all {
		members = append(members, &voter{Backend: s.backend, server: s})
	}
	majority, err := quorum.New(members, nil)
	if err != nil {
		e.Error = err.Error()
		return
	}
	locker := holdfast.New(majority, &holdfast.Options{TTL: pageLease, Note: e.Name, Observe: observe})
	began := time.Now()
	lock, err := locker.Lock(ctx, "redlock")
	e.Waited = inMS(time.Since(began))
	if err == nil {
		e.Place = int(r.places.Add(1))
		if r.inside.Add(1) > 1 {
			r.overlaps.Add(1)
		}
		retry.Sleep(lock.Context(ctx), raceWork)
		r.inside.Add(-1)
		err = cmp.Or(lock.Err(), lock.Unlock())
	}
	for _, m := range members { // all servers have answered by now
		e.Votes = append(e.Votes, m.(*voter).lastVote())
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	if err = errors.Join(err, locker.Drain(last), majority.Drain(last)); err != nil {
		e.Error = err.Error()
	}
}

// String returns the places, a line for each worker.
func (r *race) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "round %d:", r.Round)
	for _, w := range r.Workers {
		if w.Place == 0 {
			fmt.Fprintf(&b, "\n     %s did not get the lock: %s", w.Name, w.Error)
			continue
		}
		granted := strings.Count(strings.Join(w.Votes, " "), "granted")
		fmt.Fprintf(&b, "\n  %d. %s, after %s, granted by %d of %d", w.Place, w.Name, w.Waited, granted, len(w.Votes))
		if w.Error != "" {
			fmt.Fprintf(&b, ": %s", w.Error)
		}
	}
	fmt.Fprintf(&b, "\ntwo workers at the same time: %d times", r.Overlaps)
	return b.String()
}
