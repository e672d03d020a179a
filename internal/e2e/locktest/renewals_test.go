package locktest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// renewals are those of a Locker with one lock, as its events tell of them.
type renewals struct {
	mu    sync.Mutex
	all   []renewal
	began time.Time // of the call that was reported last
}

type renewal struct {
	began, ended time.Time
	err          error
}

func (r *renewals) observe(_ context.Context, e holdfast.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch {
	case e.Type == holdfast.EventCall && e.Op == holdfast.OpRenew:
		r.began = now.Add(-e.Took)
	case e.Type == holdfast.EventRenew:
		r.all = append(r.all, renewal{r.began, now, e.Err})
	}
}

func (r *renewals) any(is func(renewal) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, is)
}

// after reports whether a renewal that ended after at has succeeded.
func (r *renewals) after(at time.Time) bool {
	return r.any(func(c renewal) bool { return c.err == nil && c.ended.After(at) })
}

// met reports whether a renewal was sent between two instants, and did not succeed
// before the second.
func (r *renewals) met(from, to time.Time) bool {
	return r.any(func(c renewal) bool {
		return c.began.After(from) && c.began.Before(to) && (c.err != nil || c.ended.After(to))
	})
}
