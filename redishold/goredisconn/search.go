package goredisconn

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// How a look at the topology is taken. go-redis asks any one of the nodes, and one
// of a lost machine takes as long as the client's ReadTimeout and DialTimeout say,
// or lookLimit where the client honours contexts.
const (
	lookEvery = 250 * time.Millisecond // how often, while there is doubt
	lookFor   = 5 * time.Second        // for how long after a call without an answer: longer than the next one may take
	lookLimit = 2 * time.Second        // how long one look may take
	lookAside = 50 * time.Millisecond  // how long a node may be silent before another is asked as well
	looksMost = 8                      // nodes that have yet to answer
	askMost   = 10                     // nodes that may answer in vain, for a look
)

// search looks for the masters of a cluster while there is doubt about them.
type search struct {
	asking atomic.Int32 // how many nodes have yet to answer

	mu      sync.Mutex
	running bool
	again   bool          // somebody has come since the latest look began
	until   time.Time     // looks go on till then
	masters []string      // those of the latest look, sorted
	changed chan struct{} // closed when a look finds others; nil while nobody looks
}

// Doubt has go-redis look again where keys live, and go on looking for a while: a
// call was not answered, and its node may be replaced only some seconds later. By
// itself go-redis looks when it is redirected, and once a minute; a master that is
// dead does not redirect, and a command that is not repeated does not make go-redis
// wonder.
func (c *nodes) Doubt() { c.begin(lookFor) }

// review has go-redis look once.
func (c *nodes) review() { c.begin(0) }

// Changed returns what is closed when other masters are found than there were, or
// nil while nobody looks for them.
func (c *nodes) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *nodes) begin(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.again = true
	if until := time.Now().Add(d); until.After(c.until) {
		c.until = until
	}
	if c.running {
		return
	}
	c.running, c.changed = true, make(chan struct{})
	go c.keepLooking()
}

// keepLooking looks, and comes again until there is no more doubt, or the client is
// closed. Between two looks it is a timer only: a closed client that remembers its
// masters still answers, and no goroutine is to outlive a client for seconds.
func (c *nodes) keepLooking() {
	c.mu.Lock()
	c.again = false
	c.mu.Unlock()
	masters, err := c.look()
	if !c.found(masters, errors.Is(err, redis.ErrClosed)) {
		time.AfterFunc(lookEvery, c.keepLooking)
	}
}

// found records what a look has found, nil for nothing, and reports whether it was
// the last.
func (c *nodes) found(masters []string, closed bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if masters != nil && !slices.Equal(masters, c.masters) {
		c.masters = masters
		close(c.changed)
		c.changed = make(chan struct{})
	}
	if !closed && (c.again || time.Now().Before(c.until)) {
		return false
	}
	c.running, c.changed = false, nil
	return true
}

// finding is what a node says, or why it does not.
type finding struct {
	masters []string
	err     error
}

// look returns the masters that one of the nodes knows, nil if none of them says. A
// node that is silent does not keep it from asking the next.
func (c *nodes) look() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	answers := make(chan finding, askMost)
	patience := time.NewTicker(lookAside)
	defer patience.Stop()
	var last error
	for asked, answered := 0, 0; answered < askMost; {
		if asked < askMost && c.ask(ctx, answers) {
			asked++
		}
		select {
		case f := <-answers:
			if f.masters != nil || errors.Is(f.err, redis.ErrClosed) {
				return f.masters, f.err
			}
			answered, last = answered+1, f.err
		case <-patience.C:
		case <-ctx.Done():
			return nil, cmp.Or(last, ctx.Err())
		}
	}
	return nil, last
}

// ask has go-redis ask one of the nodes that it knows, unless too many have yet to
// answer. A node that was taken out of the cluster answers that there are no
// masters, which go-redis takes for the truth: it then draws a node for every key.
// Where nobody answers in time, go-redis returns what it knew before.
func (c *nodes) ask(ctx context.Context, answers chan<- finding) bool {
	if c.asking.Add(1) > looksMost {
		c.asking.Add(-1)
		return false
	}
	go func() {
		defer c.asking.Add(-1)
		var mu sync.Mutex // go-redis calls back from several goroutines
		var masters []string
		err := c.client.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error { // it reads the topology first
			mu.Lock()
			defer mu.Unlock()
			masters = append(masters, master.Options().Addr)
			return nil
		})
		if err = cmp.Or(err, ctx.Err()); err != nil {
			masters = nil
		}
		slices.Sort(masters)
		answers <- finding{masters, err}
	}()
	return true
}
