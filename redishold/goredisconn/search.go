package goredisconn

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
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

// refresh has go-redis refresh again where keys live. By itself go-redis looks when it is
// redirected, and once a minute; a master that is dead does not redirect, and a command
// that is not repeated does not make go-redis wonder. With a closed client it is the
// last: one that remembers its masters still answers.
func (c *nodes) refresh() (changed, last bool) {
	masters, err := c.find()
	changed = masters != nil && !slices.Equal(masters, c.masters)
	if changed {
		c.masters = masters
	}
	return changed, errors.Is(err, redis.ErrClosed)
}

// finding is what a node says, or why it does not.
type finding struct {
	masters []string
	err     error
}

// find returns the masters that one of the nodes knows, nil if none of them says. A
// node that is silent does not keep it from asking the next.
func (c *nodes) find() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	answers := make(chan finding, askMost)
	patience := time.Tick(lookAside)
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
		case <-patience:
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
	if c.silent.Add(1) > looksMost {
		c.silent.Add(-1)
		return false
	}
	go func() {
		defer c.silent.Add(-1)
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
