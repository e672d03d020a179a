package kinds

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/scripts"
	"github.com/holdfast-go/holdfast/redishold/internal/waiting"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Store is what counters need of the rest of a Backend.
type Store struct {
	*layout.Layout
	*scripts.Library
	Topics *waiting.Topics

	Ready func(ctx context.Context, name string, k Kind) (layout.Place, wire.Server, error)
	Run   func(context.Context, wire.Call) (any, error)

	// Mute is called when a script was not allowed to publish.
	Mute func(script string)
}

// Counts sets and reads the counts of latches and the sizes of semaphores. It is a
// driver.Latcher and a driver.Resizer.
type Counts struct{ store *Store }

// Counts returns those of the store.
func (s *Store) Counts() Counts { return Counts{s} }

// Counter is a bare counter: a latch, or the permits of a semaphore without leases.
// Nothing in Redisson's layout says whose a decrement was. So each call leaves a mark
// for a while, in the same script, and repeated after a lost reply it finds that it
// was done.
type Counter struct {
	*layout.Layout
	Scripts string // what their names begin with
	At      func(layout.Place) string
}

// Family is what the names of its scripts begin with.
func (c Counter) Family() string { return c.Scripts }

// Channel is where all learn of it.
func (c Counter) Channel(p layout.Place, _ driver.Claim) string { return c.At(p) }

// Step is one call of a counter.
type Step struct {
	Script  string
	Number  []string      // its first argument, if it has one
	ID      string        // of the call, for its mark; "" if it changes nothing
	Lasts   time.Duration // how long the mark lasts
	Late    []string      // whether an earlier attempt of it may still arrive, if its script asks
	Publish bool          // it wakes waiters
	MayFail bool          // its script may have nothing to do: the others always do what they are asked for

	Beside  func(layout.Place) string // its second key, if that is no mark
	Numbers int                       // how many the answer has, if not one
}

// Answer is what the scripts of counters answer. The number of a call that publishes
// is how many heard it.
type Answer struct {
	Yes     bool
	Number  int64
	Numbers []int64 // with the first
}

// Codes that the scripts of counters begin their replies with.
const (
	codeOtherKind = -1 // the key is something else
	codeNo        = 0
	codeYes       = 1
)

// Do runs a call of what is kept as k under name.
func (s *Store) Do(ctx context.Context, name string, k Kind, step Step) (Answer, error) {
	p, server, err := s.Ready(ctx, name, k)
	if err != nil {
		return Answer{}, err
	}
	p.Channel = k.Channel(p, driver.Claim{}) // also for what an error says
	c := wire.Call{Script: s.Get(step.Script), Keys: []string{p.Lock}, Args: step.Number}
	switch {
	case step.ID != "":
		c.Keys, c.Args = append(c.Keys, s.Call(p, step.ID)), append(c.Args, wire.MS(step.Lasts))
	case step.Beside != nil:
		c.Keys = append(c.Keys, step.Beside(p))
	}
	c.Args = append(c.Args, step.Late...)
	if step.Publish {
		c.Args = append(append(c.Args, p.Channel), server.PublishWith()...)
	}
	value, err := s.Run(ctx, c)
	if err != nil {
		return Answer{}, wire.NotBegun(s.Classify(p, err))
	}
	answer, code, err := read(step, value)
	switch {
	case err != nil:
		return Answer{}, err
	case code == codeOtherKind:
		return Answer{}, OtherKind(p)
	case answer.Yes && answer.Number < 0 && step.Publish:
		s.Mute(step.Script)
	}
	return answer, nil
}

// read reads what the script of step answered: a code and numbers.
func read(step Step, value any) (answer Answer, code int64, err error) {
	r := wire.Read(value)
	code = r.Number()
	answer.Yes = code == codeYes
	for r.More() {
		answer.Numbers = append(answer.Numbers, r.Number())
	}
	if !r.Done() || len(answer.Numbers) != max(1, step.Numbers) ||
		code < codeOtherKind || code > codeYes || code == codeNo && !step.MayFail {
		return Answer{}, 0, wire.BadReply(step.Script, value)
	}
	answer.Number = answer.Numbers[0]
	return answer, code, nil
}

// OtherKind says that p's key belongs to another kind of lock, or is none.
func OtherKind(p layout.Place) error {
	return fmt.Errorf("redis key %q belongs to another kind of lock, or to none: %w", p.Lock, driver.ErrMismatch)
}
