package holdfast

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

const (
	defaultTTL = 30 * time.Second
	// minTTL is the shortest lease that leaves time to be renewed over a network.
	minTTL = 10 * time.Millisecond
)

// Options are the settings of a Locker. The zero value of each field means its
// default.
type Options struct {
	// TTL is how long a lock outlives a silent holder: it is renewed every TTL/3
	// for as long as it is held. At least 10ms, at most 100 years. Default 30s, or what
	// comes nearest to it of what the store has.
	TTL time.Duration

	// Margin is how long before the end of its lease a lock counts as lost. It
	// covers the difference between two clocks' rates and the time that a holder
	// needs to stop. Default TTL/10; less than TTL/2. Where the default is used, a
	// lease that the store granted for a short time, as the release of a fair lock
	// does on Redis, has a tenth of that until its first renewal.
	Margin time.Duration

	// Note is shown to people beside the lock. Default "program@host:pid".
	Note string

	// Anonymous writes nothing to the store that says who this client is, where it
	// runs and what it holds or waits for, beyond the locks themselves: there is no
	// default Note. A Note that is given is written beside the lock.
	Anonymous bool

	// Logger receives what cannot be returned: losses, late renewals, clean-up
	// that fails. Default: nothing is logged.
	Logger *slog.Logger

	// Observe is called after each acquire, renewal, release and loss, from the
	// goroutine that did it or from one of its own, never while the Locker holds
	// an internal lock. It may be slow: each step is recorded before it is
	// reported, and no lock or renewal waits for the report but the call that made
	// it. While Observe is busy with a renewal of a lock, other renewals of that
	// lock are not reported. Package audit writes events to the store, for people.
	Observe func(context.Context, Event)

	// Handoff bounds how long a lock may circulate among the goroutines of this
	// Locker before it goes back to the store.
	Handoff Handoff
}

// Option is an exception for one call.
type Option func(*request)

// Lease fixes the end of the lock: it ends after d, unlocked or not. At least 10ms, at
// most 100 years.
//
// The lock is not renewed, so it ends without the process, too. The exception is a store
// with driver.Info.SessionTTL: there the lock is renewed, if need be, until d has passed,
// and then released. If the process dies it ends with the session.
func Lease(d time.Duration) Option {
	return func(r *request) { r.lease, r.leased = d, true }
}

// Wait says how long to wait for the lock before ErrBusy. 0 means one attempt.
// Without it TryLock does not wait, and Lock waits until its context is done; so it
// is with more than 100 years.
func Wait(d time.Duration) Option {
	return func(r *request) { r.wait = d }
}

// settings are Options with the defaults filled in, and checked.
type settings struct {
	ttl, margin time.Duration
	note        string
	anonymous   bool
	log         *slog.Logger
	observe     func(context.Context, Event)
	handoff     Handoff

	marginChosen bool
}

func (o *Options) settings(info driver.Info) (settings, error) {
	if o == nil {
		o = &Options{}
	}
	s := settings{ttl: o.TTL, margin: o.Margin, note: o.Note, anonymous: o.Anonymous, log: o.Logger, observe: o.Observe, handoff: o.Handoff.withDefaults(info), marginChosen: o.Margin != 0}
	if s.ttl == 0 {
		s.ttl = cmp.Or(info.SessionTTL, min(max(defaultTTL, info.MinTTL), mostTTL(info)))
	}
	if s.margin == 0 {
		s.margin = s.ttl / 10
	}
	if s.note == "" && !s.anonymous {
		s.note = defaultNote()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := checkTTL("TTL", s.ttl, info); err != nil {
		return s, err
	}
	if info.SessionTTL > 0 && s.ttl != info.SessionTTL {
		return s, fmt.Errorf("TTL of %s: %s keeps all locks of a client for %s; change that with %s", s.ttl, info.Name, info.SessionTTL, info.SessionOption)
	}
	if s.handoff.For < 0 {
		return s, fmt.Errorf("handoff for %s is negative", s.handoff.For)
	}
	if s.margin < 0 || s.margin >= s.ttl/2 {
		return s, fmt.Errorf("margin of %s does not fit a TTL of %s: it must be positive and less than half of it", s.margin, s.ttl)
	}
	return s, nil
}

func checkTTL(what string, d time.Duration, info driver.Info) error {
	least := max(minTTL, info.MinTTL)
	switch {
	case d < 0:
		return fmt.Errorf("%s of %s is negative", what, d)
	case d < least:
		return fmt.Errorf("%s of %s is too short: %s keeps a lock for at least %s", what, d, info.Name, least)
	case d > mostTTL(info):
		return fmt.Errorf("%s of %s is too long: %s keeps a lock for at most %s", what, d, info.Name, mostTTL(info))
	}
	return nil
}

// mostTTL is the longest lease that can be asked of a store.
func mostTTL(info driver.Info) time.Duration {
	if info.MaxTTL > 0 {
		return min(info.MaxTTL, clock.Longest)
	}
	return clock.Longest
}

func defaultNote() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	program := "unknown"
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0])
	}
	return fmt.Sprintf("%s@%s:%d", program, host, os.Getpid())
}
