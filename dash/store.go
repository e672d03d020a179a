package dash

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

const (
	pollTimeout = 800 * time.Millisecond
	keptTimes   = 120 // the number of answers whose times are kept
)

// store records whether the store answers, and how long its answers take.
type store struct {
	mu        sync.Mutex
	condition condition
	times     []time.Duration
}

// condition is the state of the store at one moment.
type condition struct {
	answered      time.Time     // when the store last answered; zero if the store has never answered
	failing       time.Time     // when the store stopped answering; zero while it answers
	err           error         // why the store does not answer; while it answers, why it could not read some locks
	median, worst time.Duration // the times of the last answers; only the method now sets them
}

// record records the result of a poll, which began at the time `began` and ended at the time
// `now`.
func (s *store) record(began, now time.Time, records []admin.Record, err error) {
	some := slices.ContainsFunc(records, func(r admin.Record) bool { return r.Kind != admin.KindUnknown })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.condition.err = err
	if err != nil && !some {
		if s.condition.failing.IsZero() {
			s.condition.failing = began
		}
		return
	}
	s.condition.answered, s.condition.failing = now, time.Time{}
	s.times = append(s.times, now.Sub(began))
	s.times = s.times[max(0, len(s.times)-keptTimes):]
}

func (s *store) now() condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.condition
	if sorted := slices.Sorted(slices.Values(s.times)); len(sorted) > 0 {
		c.median, c.worst = sorted[len(sorted)/2], sorted[len(sorted)-1]
	}
	return c
}

// fetch asks the store about the given names, and records its answer.
func (d *Dashboard) fetch(ctx context.Context, names []string) {
	limited, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	began := time.Now()
	records, err := d.console.Get(limited, names...)
	now := time.Now()
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return // the browser has disconnected, or the watcher ends
	}
	d.store.record(began, now, records, err)
	d.table.Poll(ctx, now, records...)
}

// reasons returns for how many of n ended holds the dashboard may ask the store whether they
// were forced. It takes the commands for these questions from the budget.
func (d *Dashboard) reasons(n int) int {
	const commandsPerPoll = 3 // a poll costs three commands, and the question for one reason costs one
	return min(n, commandsPerPoll*d.budget.take(time.Now(), 0, (n+commandsPerPoll-1)/commandsPerPoll))
}

// detail asks the store for everything that it keeps about one name.
func (d *Dashboard) detail(ctx context.Context, name string) (admin.Detail, error) {
	limited, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	detail, err := d.console.Describe(limited, name)
	if err == nil {
		d.table.Poll(ctx, time.Now(), detail.Record)
	}
	return detail, err
}
