package webdemo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
)

const (
	racers    = 5
	raceWork  = 150 * time.Millisecond // how long each holds the lock
	raceLimit = 20 * time.Second
)

// Votes of a node.
const (
	voteNone    = ""        // it was not asked, or has not answered
	voteGranted = "granted" // it granted its part of the lock
	voteRefused = "refused" // somebody else had it
	voteFailed  = "failed"  // it could not be reached, or its vote does not count
)

// nodeState is a Redis of the race.
type nodeState struct {
	Number  int    `json:"number"`
	Name    string `json:"name"`
	StandIn bool   `json:"stand_in,omitempty"`
	Cut     bool   `json:"cut,omitempty"`
}

// raceState is how the last race went, or goes.
type raceState struct {
	Round    int          `json:"round"`
	Running  bool         `json:"running"`
	Workers  []racerState `json:"workers"`  // in the order in which they got the lock
	Overlaps int          `json:"overlaps"` // how often two of them held it at once
	Took     int64        `json:"took_ms"`
}

// racerState is the result of one worker.
type racerState struct {
	Name   string   `json:"name"`
	Place  int      `json:"place,omitempty"` // 1 for the first
	Waited int64    `json:"waited_ms"`
	Votes  []string `json:"votes"` // by node, of the attempt that won
	Error  string   `json:"error,omitempty"`
}

// Granted returns how many nodes granted the lock.
func (r racerState) Granted() (n int) {
	for _, v := range r.Votes {
		if v == voteGranted {
			n++
		}
	}
	return n
}

// arena lets workers race for a lock that a majority of several Redis has to grant.
type arena struct {
	board  *board
	nodes  []*store
	racers []*racer
	turn   chan struct{} // capacity 1
	keep   *redishold.Script

	mu     sync.Mutex
	inside int
	state  raceState
}

// racer is one worker: a client of its own.
type racer struct {
	name    string
	quorum  *quorum.Backend
	locker  *holdfast.Locker
	ballots []*ballot
}

// newArena makes the workers. known says of each node whether it reports when it was
// restarted; a stand-in does not, and is not without us.
func newArena(nodes []*store, known []bool, b *board) (*arena, error) {
	a := &arena{board: b, nodes: nodes, turn: make(chan struct{}, 1), keep: keepScript()}
	for i := range racers {
		r := &racer{name: fmt.Sprintf("worker %d", i+1)}
		var members []driver.Backend
		for n, node := range nodes {
			vote := &ballot{Backend: node.Backend}
			r.ballots = append(r.ballots, vote)
			if known[n] {
				members = append(members, witness{vote, node.Backend})
			} else {
				members = append(members, vote)
			}
		}
		var err error
		if r.quorum, err = quorum.New(members, &quorum.Options{MaxTTL: defaultLease}); err != nil {
			return nil, err
		}
		r.locker = holdfast.New(r.quorum, &holdfast.Options{TTL: defaultLease, Note: r.name})
		a.racers = append(a.racers, r)
	}
	return a, nil
}

// ballot is a node that remembers how it voted last.
type ballot struct {
	driver.Backend
	mu      sync.Mutex
	attempt int // the last one
	vote    string
}

// Try asks the node.
func (b *ballot) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	attempt := b.begin()
	out, err := b.Backend.Try(ctx, c)
	switch {
	case err != nil:
		b.set(attempt, voteFailed)
	case out.Granted:
		b.set(attempt, voteGranted)
	default:
		b.set(attempt, voteRefused)
	}
	return out, err
}

// begin forgets the vote of the last attempt, and returns the number of the next.
func (b *ballot) begin() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.vote = voteNone
	b.attempt++
	return b.attempt
}

// set notes the vote of an attempt, unless a later one has begun: the answer to one that
// lost may come after it.
func (b *ballot) set(attempt int, vote string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if attempt == b.attempt {
		b.vote = vote
	}
}

func (b *ballot) get() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.vote
}

// witness is a ballot of a node that reports when it was restarted.
type witness struct {
	*ballot
	quorum.Incarnator
}

// begin reserves the next race, or returns errRunning.
func (a *arena) begin() error {
	select {
	case a.turn <- struct{}{}:
	default:
		return errRunning
	}
	a.note(func(s *raceState) { *s = raceState{Round: s.Round + 1, Running: true} })
	return nil
}

func (a *arena) note(change func(*raceState)) raceState {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.state)
	now := a.state
	now.Workers = slices.Clone(now.Workers)
	a.board.update(func(b *state) { b.Race = now })
	return now
}

// run runs the race and returns how it ended. Who does not get the lock comes
// last.
func (a *arena) run(ctx context.Context) raceState {
	defer func() { <-a.turn }()
	ctx, cancel := context.WithTimeoutCause(ctx, raceLimit, fmt.Errorf("no majority within %s", raceLimit))
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	for _, r := range a.racers {
		all.Go(func() { a.compete(ctx, r) })
	}
	all.Wait()
	a.forget(ctx)
	return a.note(func(s *raceState) {
		s.Running, s.Took = false, time.Since(began).Milliseconds()
	})
}

// forget lets the counters of tokens expire, which nobody needs here. A node that
// is unreachable keeps its own.
func (a *arena) forget(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, n := range a.nodes {
		all.Go(func() { _, _ = n.run(ctx, a.keep, []string{prefix + tokenName}, milliseconds(keep)) })
	}
	all.Wait()
}

// compete is one worker's part.
func (a *arena) compete(ctx context.Context, r *racer) {
	asked := time.Now()
	lock, err := r.locker.Lock(ctx, redlockName)
	if err != nil {
		a.note(func(s *raceState) { s.Workers = append(s.Workers, r.failed(err)) })
		return
	}
	waited, place := time.Since(asked).Milliseconds(), 0
	a.note(func(s *raceState) {
		a.inside++
		if a.inside > 1 {
			s.Overlaps++
		}
		for _, w := range s.Workers {
			place = max(place, w.Place)
		}
		place++
		s.Workers = slices.Insert(s.Workers, place-1, racerState{Name: r.name, Place: place, Waited: waited, Votes: r.votes()})
	})
	retry.Sleep(lock.Context(ctx), raceWork)
	err = lock.Err()
	a.note(func(s *raceState) { // by now all nodes have voted
		a.inside--
		s.Workers[place-1].Votes = r.votes()
		if err != nil {
			s.Workers[place-1].Error = err.Error()
		}
	})
	if unlock := lock.Unlock(); unlock != nil && err == nil {
		a.note(func(s *raceState) { s.Workers[place-1].Error = unlock.Error() })
	}
}

func (r *racer) failed(err error) racerState {
	return racerState{Name: r.name, Votes: r.votes(), Error: err.Error()}
}

func (r *racer) votes() []string {
	var votes []string
	for _, b := range r.ballots {
		votes = append(votes, b.get())
	}
	return votes
}

// do cuts the network to a node, or fixes it.
func (a *arena) do(number int, what string) error {
	if number < 1 || number > len(a.nodes) {
		return fmt.Errorf("there is no node %d", number)
	}
	if what != "cut" && what != "mend" {
		return fmt.Errorf("%q is nothing that can be done to a node", what)
	}
	cut := what == "cut"
	a.nodes[number-1].cable.set(cut)
	a.board.update(func(s *state) {
		s.Nodes = slices.Clone(s.Nodes)
		s.Nodes[number-1].Cut = cut
	})
	return nil
}

// drain waits until nothing is released any more.
func (a *arena) drain(ctx context.Context) error {
	var errs []error
	for _, r := range a.racers {
		errs = append(errs, r.locker.Drain(ctx), r.quorum.Drain(ctx))
	}
	return errors.Join(errs...)
}
