package open

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

const (
	troubleLimit = 400 * time.Millisecond // how long the servers may take to report what is wrong
	stragglers   = 100 * time.Millisecond // how long to wait for the other servers after the first report of trouble
)

// state is what a server reports of itself.
type state struct {
	version string
	trouble error // why no lock can be taken there; nil if nothing is wrong
}

// ErrReadOnly is the error of a store in which locks can be read, but not taken.
var ErrReadOnly = errors.New("the server is read-only, so no lock can be taken there")

var errNoMajority = errors.New("no majority of its members is up and connected, so it does not work")

// Ping asks the store for its version, which is one round trip.
func (s *Store) Ping(ctx context.Context) (version string, err error) {
	now, err := s.state(ctx)
	if err != nil && s.Redis == nil {
		err = failure(s.Kind, s.hosts, err)
	}
	return now.version, err
}

// Trouble asks the servers whether locks can be taken, and returns why not. It returns nil if a
// server reports no trouble, or if no server answers in time.
func (s *Store) Trouble(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, troubleLimit)
	defer cancel()
	now, err := s.state(ctx)
	if err != nil || now.trouble == nil {
		return nil
	}
	return unreachable(s.Kind, s.hosts, now.trouble)
}

// stateIn returns the state of a server from a row with two columns: the version, and whether
// the server is read-only.
func stateIn(row interface{ Scan(into ...any) error }) (now state, err error) {
	var readOnly bool
	err = row.Scan(&now.version, &readOnly)
	if readOnly {
		now.trouble = ErrReadOnly
	}
	return now, err
}

// anyState asks all servers, and returns the state of the first one that reports no trouble. If
// all servers that answer report trouble, it returns the state of one of them, and adds to its
// trouble how many servers answer. If no server answers, it returns all errors.
func anyState(ctx context.Context, servers []string, ask func(ctx context.Context, server string) (state, error)) (state, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var found state
	var failed []error
	idle := 0
	for s, err := range askAll(ctx, servers, ask) {
		switch {
		case err != nil:
			failed = append(failed, err)
		case s.trouble == nil:
			return s, nil
		default:
			found = s
			idle++
			time.AfterFunc(stragglers, cancel)
		}
	}
	err := errors.Join(failed...)
	switch {
	case idle > 0:
		found.trouble = fmt.Errorf("%w (%d of the %d in the URL answer)", found.trouble, idle, len(servers))
		return found, nil
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer in time: %w", err)
	}
	return state{}, err
}

// askAll asks all questions at the same time, and yields the answers in the order of arrival.
// If the loop ends early, the context of the questions without an answer ends.
func askAll[Q, A any](ctx context.Context, questions []Q, ask func(context.Context, Q) (A, error)) iter.Seq2[A, error] {
	type reply struct {
		answer A
		err    error
	}
	return func(yield func(A, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var asking sync.WaitGroup
		defer asking.Wait()
		defer cancel()
		replies := make(chan reply, len(questions))
		for _, q := range questions {
			asking.Go(func() {
				answer, err := ask(ctx, q)
				replies <- reply{answer, err}
			})
		}
		for range questions {
			if r := <-replies; !yield(r.answer, r.err) {
				return
			}
		}
	}
}
