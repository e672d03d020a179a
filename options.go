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

// Options are the settings of a Locker. A zero field means the default.
type Options struct {
	// TTL is the lease: how long a lock stays after its holder stops renewing it. A held lock
	// is renewed every TTL/3. TTL must be between 10ms and 100 years. Default 30s, or the
	// nearest value that the store allows.
	TTL time.Duration

	// Margin is how long before the end of its lease a lock counts as lost. It covers the
	// difference between the rates of two clocks, and the time that a holder needs to stop.
	// Default TTL/10. Margin must be less than TTL/2. The store may grant a lease that is
	// shorter than the TTL. For example, on Redis the release of a fair lock grants a short
	// lease to the next waiter. With the default, the margin of a short lease is a tenth of
	// that lease. If you set Margin to two thirds of a short lease or more, no time is left to
	// renew that lease, so Lock returns an error.
	Margin time.Duration

	// Note is a text for people, stored with the lock. Default "program@host:pid".
	Note string

	// Anonymous keeps information about this client out of the store: where it runs, what
	// it holds and what it waits for. Only the locks themselves are written. There is no
	// default Note then, but an explicit Note is written.
	Anonymous bool

	// Logger gets the events that no call can return: losses, renewals that fail or are late,
	// clean-up that fails, and, once, a store that grants a much shorter lease than the TTL.
	// Default: no log.
	Logger *slog.Logger

	// Observe gets each event. It is called by the goroutine that causes the event or by
	// another one, and never while the Locker holds an internal mutex. Observe may be slow:
	// only the call that caused the event waits for it, no other lock and no renewal. While
	// Observe handles a renewal of a lock, later renewals of that lock are not reported, except
	// the latest one, which is reported after that. The Observe of an audit.Writer writes events to the store.
	Observe func(context.Context, Event)

	// Handoff limits how long a lock may go from goroutine to goroutine of this Locker
	// before it is released in the store.
	Handoff Handoff

	// AsyncUnlock lets Unlock return as soon as the release is queued in this process. Unlock
	// then waits neither for the request to be sent nor for the answer of the store, but still
	// returns a loss that this process knows of. Observe and the Logger get the answer of the
	// store, as EventRelease or EventLoss. Until the answer has come, another goroutine of this
	// Locker that asks for the same name does not find the name busy because of that release:
	// it waits until the store has answered, or until the process does not repeat the release
	// any more, which is after 3 s at the latest.
	//
	// Call Drain before the program ends. A program that ends right after Unlock, without
	// Drain, has often not sent the release, and the name then stays taken until the lease ends.
	//
	// AsyncUnlock saves half of the round trips of short holds. But an Unlock that returned nil
	// does not prove that the lock was held until then. If you need that proof, use Do, whose
	// error shows a loss, or a fencing token. AsyncUnlock has an effect on a Mutex and on the
	// write side of a RWMutex, in Redis only. The Unlock of Do, DoAll, LockAll, AtLeast,
	// FairMutex and WithOwner always waits, and so does each Unlock in another store.
	AsyncUnlock bool
}

const (
	defaultTTL = 30 * time.Second
	// minTTL is the shortest lease that leaves time to be renewed over a network.
	minTTL = 10 * time.Millisecond
)

// Handoff limits how long a lock may go from goroutine to goroutine of a Locker before it is
// released in the store, where other processes wait for it. Within these limits Unlock passes
// the lock on to the goroutine that has waited longest. That needs no call to the store. The
// new holder gets the next fencing token of a block that the store reserved with the grant.
// Only a Mutex is passed on, not a fair or read-write lock, and no lock with the option
// FixedLease, AtMost, AtLeast or Note.
//
// In the store the lock keeps the owner of its first holder.
type Handoff struct {
	// Max is how often a lock is passed on before it is released in the store. The
	// default and the maximum are 4096; a negative value turns passing on off. The store
	// reserves 64 tokens first, and twice as many whenever all were used, so that few are
	// wasted.
	Max int

	// For is how long after the grant of the store a lock may be passed on. It does not
	// limit how long a holder keeps the lock. Default 50ms.
	For time.Duration
}

const (
	defaultHandoffMax = 4096
	defaultHandoffFor = 50 * time.Millisecond

	// handoffMost bounds Max. A grant reserves up to that many tokens. The counter of tokens
	// starts from a clock, and must not get ahead of that clock.
	handoffMost = 4096
)

// settings are Options with the defaults filled in, and checked.
type settings struct {
	ttl, margin time.Duration
	note        string
	anonymous   bool
	log         *slog.Logger
	observe     func(context.Context, Event)
	handoff     Handoff
	asyncUnlock bool

	marginChosen bool
}

func (o *Options) settings(info driver.Info) (settings, error) {
	if o == nil {
		o = &Options{}
	}
	s := settings{
		ttl:          o.TTL,
		margin:       o.Margin,
		marginChosen: o.Margin != 0,
		note:         o.Note,
		anonymous:    o.Anonymous,
		log:          o.Logger,
		observe:      o.Observe,
		handoff:      o.Handoff.withDefaults(info),
		asyncUnlock:  o.AsyncUnlock,
	}
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
		return s, fmt.Errorf("TTL of %s: %s keeps all locks of a client for %s; change that with %s",
			s.ttl, info.Name, info.SessionTTL, info.SessionOption)
	}
	if s.handoff.For < 0 {
		return s, fmt.Errorf("handoff for %s is negative", s.handoff.For)
	}
	if s.margin < 0 || s.margin >= s.ttl/2 {
		return s, fmt.Errorf("margin of %s does not fit a TTL of %s: the margin must be positive, and less than half of the TTL", s.margin, s.ttl)
	}
	return s, nil
}

// withDefaults returns o with the defaults in place of zeros. Max is at most what the
// store can reserve, because each holder needs a token of its own.
func (o Handoff) withDefaults(info driver.Info) Handoff {
	if o.Max == 0 {
		o.Max = defaultHandoffMax
	}
	o.Max = min(o.Max, handoffMost)
	if most := info.MaxTokens; most > 0 && info.Caps.Fencing {
		o.Max = min(o.Max, most-1)
	}
	if o.For == 0 {
		o.For = defaultHandoffFor
	}
	return o
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

// marginOf returns the margin of a lease that the store keeps for the time `validFor`. If the
// user has not chosen a margin, the margin is at most a tenth of that lease.
func (s *settings) marginOf(validFor time.Duration) time.Duration {
	if s.marginChosen {
		return s.margin
	}
	return min(s.margin, validFor/10)
}
