package memhold

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Conn is the connection of one process to a Backend, for tests of a store that fails. It is a
// driver.Backend itself. A test makes one Conn for each process that it simulates, passes it to
// holdfast.New, and disturbs it. The other processes still reach the store. Several goroutines
// may call its methods at once.
//
// Cut, LoseAnswers, Delay and Fail each take the place of the one before. Restore ends them.
//
// Without an answer, a call waits until its context ends, as a call over a silent network does.
// It then returns an error that is the error of the context, and not driver.ErrNotExecuted. A
// Conn is no admin.Source: the Backend shows and forces the locks of all of them.
type Conn struct {
	store *Backend

	mu      sync.Mutex
	fault   fault
	changed chan struct{} // closed when the field `fault` changes; nil if no call waits for that
}

// fault is how a Conn is disturbed. The zero fault is none.
type fault struct {
	cut   bool          // requests do not arrive
	deaf  bool          // answers and notifications do not arrive
	delay time.Duration // for a request and its answer together
	err   error         // the result of each call, if it is not nil
}

var (
	_ driver.Backend  = (*Conn)(nil)
	_ driver.Batcher  = (*Conn)(nil)
	_ driver.Resizer  = (*Conn)(nil)
	_ driver.Latcher  = (*Conn)(nil)
	_ driver.Notifier = (*Conn)(nil)
)

// Connect returns a new connection to b. All connections have the same locks, and so has b.
func (b *Backend) Connect() *Conn {
	return &Conn{store: b}
}

// Cut makes the store unreachable: from now on no call of this Conn reaches the store, and no
// answer or notification of the store reaches this Conn. Calls wait until their contexts end or
// until Restore. A call that still waits at Restore is executed then. A Wait that has begun goes
// on after Restore; its notification comes then.
func (c *Conn) Cut() { c.set(fault{cut: true, deaf: true}) }

// LoseAnswers lets the store execute each call from now on, but neither an answer nor a
// notification reaches this Conn until Restore.
func (c *Conn) LoseAnswers() { c.set(fault{deaf: true}) }

// Delay makes each call that begins from now on take d longer. The store executes the call
// after half of that time, unless its context ends before that.
func (c *Conn) Delay(d time.Duration) { c.set(fault{delay: d}) }

// Fail makes each call that begins from now on return err at once, without being executed. The
// table in package driver says what the core does with err. With driver.ErrNotExecuted the
// server accepts no connections, with driver.ErrDenied it does not accept the password, and with
// driver.ErrUnable it is full.
func (c *Conn) Fail(err error) { c.set(fault{err: err}) }

// Restore ends all faults.
func (c *Conn) Restore() { c.set(fault{}) }

func (c *Conn) set(f fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// current returns the fault, and a channel that is closed when the fault changes.
func (c *Conn) current() (fault, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil { // not made by Connect: a channel belongs to the bubble that makes it
		c.changed = make(chan struct{})
	}
	return c.fault, c.changed
}

// begin returns the delay of a call that begins now, or the error with which the call ends.
func (c *Conn) begin(ctx context.Context) (delay time.Duration, err error) {
	if err := ended(ctx); err != nil {
		return 0, err
	}
	f, _ := c.current()
	return f.delay, f.err
}

// send returns nil when the request of a call with that delay has arrived at the store.
func (c *Conn) send(ctx context.Context, delay time.Duration) error {
	return c.travel(ctx, delay/2, func(f fault) bool { return !f.cut })
}

// receive returns nil when the answer of a call with that delay has arrived.
func (c *Conn) receive(ctx context.Context, delay time.Duration) error {
	return c.travel(ctx, delay-delay/2, func(f fault) bool { return !f.deaf })
}

// travel waits for the time d, and then until the fault lets a request or an answer pass. In
// this order a fault that begins during the delay stops it, too.
func (c *Conn) travel(ctx context.Context, d time.Duration, open func(fault) bool) error {
	if d > 0 && !retry.Sleep(ctx, d) {
		return noAnswer(ctx)
	}
	return c.passes(ctx, open)
}

// passes waits until the fault is one for which the function `open` returns true. If ctx ends
// first, it returns an error.
func (c *Conn) passes(ctx context.Context, open func(fault) bool) error {
	for {
		f, changed := c.current()
		if open(f) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return noAnswer(ctx)
		}
	}
}

// noAnswer returns the error of a call whose context has ended before its answer came. It does
// not say whether the store has executed the call.
func noAnswer(ctx context.Context) error {
	return fmt.Errorf("memhold: no answer: %w", ctx.Err())
}

// over makes a call of the store over the connection.
func over[R any](ctx context.Context, c *Conn, call func() (R, error)) (R, error) {
	var none R
	delay, err := c.begin(ctx)
	if err == nil {
		err = c.send(ctx, delay)
	}
	if err != nil {
		return none, err
	}
	result, err := call()
	if lost := c.receive(ctx, delay); lost != nil {
		return none, lost
	}
	return result, err
}
