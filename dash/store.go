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
	keptTimes   = 120 // answers whose times are kept
)

// store is the state of the store.
type store struct {
	mu       sync.Mutex
	answered time.Time // when it last answered
	failing  time.Time // when the store stopped answering; zero while it answers
	err      error     // why; while it answers, why some locks could not be read
	times    []time.Duration
}

// condition is the state of the store at one moment.
type condition struct {
	answered, failing time.Time
	err               error
	median, worst     time.Duration // of the last answers
}

// record records the result of a poll that began at began.
func (s *store) record(began, now time.Time, records []admin.Record, err error) {
	some := slices.ContainsFunc(records, func(r admin.Record) bool { return r.Kind != admin.KindUnknown })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	if err != nil && !some {
		if s.failing.IsZero() {
			s.failing = began
		}
		return
	}
	s.answered, s.failing = now, time.Time{}
	s.times = append(s.times, now.Sub(began))
	s.times = s.times[max(0, len(s.times)-keptTimes):]
}

func (s *store) now() condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := condition{answered: s.answered, failing: s.failing, err: s.err}
	if sorted := slices.Sorted(slices.Values(s.times)); len(sorted) > 0 {
		c.median, c.worst = sorted[len(sorted)/2], sorted[len(sorted)-1]
	}
	return c
}

// unsupported reports whether the store can never list its locks.
func (c condition) unsupported() bool { return errors.Is(c.err, errors.ErrUnsupported) }

// fetch asks the store about names, and records its answer.
func (d *Dashboard) fetch(ctx context.Context, names []string) {
	limited, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	began := time.Now()
	records, err := d.console.Get(limited, names...)
	now := time.Now()
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return // the client has left
	}
	d.store.record(began, now, records, err)
	d.found(ctx, now, records, false)
}

// found records what the store answered at now, and why the holds have ended that are
// missing in it.
func (d *Dashboard) found(ctx context.Context, now time.Time, records []admin.Record, walking bool) {
	d.table.found(now, records, walking, d.reasons(ctx, d.table.over(now, records)))
}

// reasons asks the store which of the holds in ended were forced, as far as the budget
// allows; the others count as released.
func (d *Dashboard) reasons(ctx context.Context, ended []admin.Ended) reasons {
	const commandsPerPoll = 3 // as the budget counts; a question for a reason is one command
	ended = ended[:min(len(ended), commandsPerPoll*d.budget.take(time.Now(), (len(ended)+commandsPerPoll-1)/commandsPerPoll))]
	if len(ended) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	texts, _ := d.console.ForceReasons(ctx, ended) // a reason that cannot be read is left out
	why := make(reasons, len(ended))
	for i, e := range ended {
		why[e] = texts[i]
	}
	return why
}

// detail asks the store for everything that it keeps of name.
func (d *Dashboard) detail(ctx context.Context, name string) (admin.Detail, error) {
	limited, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	detail, err := d.console.Describe(limited, name)
	if err == nil {
		d.found(ctx, time.Now(), []admin.Record{detail.Record}, false)
	}
	return detail, err
}
