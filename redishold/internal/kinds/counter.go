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

// Store has the parts of a Backend that counters use.
type Store struct {
	*layout.Layout
	*scripts.Library
	Topics *waiting.Topics

	Ready func(ctx context.Context, name string, kind Kind) (layout.Keys, wire.Server, error)
	Run   func(context.Context, wire.Call) (any, error)

	// PublishRefused is called when the server has refused to publish for a script.
	PublishRefused func(script string)
}

// Counts sets and reads the counts of latches and the sizes of semaphores. It is a
// driver.Latcher and a driver.Resizer.
type Counts struct{ store *Store }

// Counts returns the Counts of the store.
func (s *Store) Counts() Counts { return Counts{s} }

// Counter is a bare counter: a latch, or the permits of a semaphore without leases. In
// Redisson's layout a decrement has no owner. So each script that changes the counter also
// writes an idempotency key, which stays for a while: a call that is repeated after a lost
// reply finds the key, and changes nothing.
type Counter struct {
	*layout.Layout
	Scripts string                   // prefix of the names of its scripts
	At      func(layout.Keys) string // returns the channel of the counter
}

// Family implements Kind.
func (c Counter) Family() string { return c.Scripts }

// Channel returns the channel of the counter, for all its waiters.
func (c Counter) Channel(k layout.Keys, _ driver.Claim) string { return c.At(k) }

// Step is one call of a counter.
type Step struct {
	Script  string
	Number  []string      // the first argument of the script, if that is a number; otherwise nil
	ID      string        // the last part of the idempotency key of this call; "" if the script has no such key
	CallTTL time.Duration // TTL of the idempotency key
	Late    []string      // "1" if an earlier attempt may still arrive, otherwise "0"; nil if the script has no such argument
	Publish bool          // the script notifies waiters
	MayFail bool          // the reply of the script may begin with codeNo

	SecondKey func(layout.Keys) string // returns the second key of the script; nil if the script has no second key, or if that is an idempotency key
	Numbers   int                      // how many numbers the reply has after its code; 0 means one
}

// Answer is the reply of the script of a counter.
type Answer struct {
	Yes     bool    // the reply begins with codeYes
	Number  int64   // the first number after the code; after a call that publishes, the number of receivers
	Numbers []int64 // all numbers after the code
}

// The replies of the scripts of counters begin with one of these codes.
const (
	codeOtherKind = -1 // the key belongs to another kind of lock, or to none
	codeNo        = 0
	codeYes       = 1
)

// Do makes one call, `step`, of the counter called name. The parameter `kind` is the kind of
// that counter.
func (s *Store) Do(ctx context.Context, name string, kind Kind, step Step) (Answer, error) {
	k, server, err := s.Ready(ctx, name, kind)
	if err != nil {
		return Answer{}, err
	}
	k.Channel = kind.Channel(k, driver.Claim{}) // also for the text of an error
	c := wire.Call{Script: s.Get(step.Script), Keys: []string{k.Lock}, Args: step.Number}
	switch {
	case step.ID != "":
		c.Keys, c.Args = append(c.Keys, s.CallKey(k, step.ID)), append(c.Args, wire.MS(step.CallTTL))
	case step.SecondKey != nil:
		c.Keys = append(c.Keys, step.SecondKey(k))
	}
	c.Args = append(c.Args, step.Late...)
	if step.Publish {
		c.Args = append(append(c.Args, k.Channel), server.PublishWith()...)
	}
	value, err := s.Run(ctx, c)
	if err != nil {
		return Answer{}, wire.NotBegun(s.Classify(k, err))
	}
	answer, code, err := read(step, value)
	switch {
	case err != nil:
		return Answer{}, err
	case code == codeOtherKind:
		return Answer{}, OtherKind(k)
	case answer.Yes && answer.Number < 0 && step.Publish:
		s.PublishRefused(step.Script)
	}
	return answer, nil
}

// read returns the Answer in `value`, the reply of the script of `step`. The reply has a code,
// and then numbers.
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

// OtherKind returns the error for a key that belongs to another kind of lock, or to none.
func OtherKind(k layout.Keys) error {
	return fmt.Errorf("redis key %q belongs to another kind of lock, or to none: %w", k.Lock, driver.ErrMismatch)
}
