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

// These constants are for polls of the topology. go-redis asks any one of the nodes. If that
// node is lost, a poll takes as long as the ReadTimeout and the DialTimeout of the client
// together, or pollTimeout if the client honours contexts.
const (
	pollEvery     = 250 * time.Millisecond // interval of the polls
	pollFor       = 5 * time.Second        // how long to poll after a call without a reply: longer than the next call may take
	pollTimeout   = 2 * time.Second        // limit of one poll
	hedgeAfter    = 50 * time.Millisecond  // how long a node may stay without a reply before another one is asked, too
	maxUnanswered = 8                      // maximal number of nodes that were asked and have not replied yet, in all polls together
	maxAsked      = 10                     // maximal number of nodes that one poll asks
)

// refresh makes go-redis find out the masters again, and reports whether they have changed.
// Without refresh, go-redis would do so only after a redirection, and once a minute: a dead
// master sends no redirection, and go-redis ignores the failure of a command that it must not
// repeat. The result `last` is true if the client is closed. A closed client still returns the
// masters that it knew.
func (c *nodes) refresh() (changed, last bool) {
	masters, err := c.find()
	changed = masters != nil && !slices.Equal(masters, c.masters)
	if changed {
		c.masters = masters
	}
	return changed, errors.Is(err, redis.ErrClosed)
}

// topology has the masters that one node knows, or the error of the request to that node.
type topology struct {
	masters []string
	err     error
}

// find returns the masters that one of the nodes knows, or nil if no node returns masters. If a
// node does not reply soon, find asks another node, too.
func (c *nodes) find() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), pollTimeout)
	defer cancel()
	answers := make(chan topology, maxAsked)
	hedge := time.Tick(hedgeAfter)
	var last error
	for asked, answered := 0, 0; answered < maxAsked; {
		if asked < maxAsked && c.ask(ctx, answers) {
			asked++
		}
		select {
		case f := <-answers:
			if f.masters != nil || errors.Is(f.err, redis.ErrClosed) {
				return f.masters, f.err
			}
			answered, last = answered+1, f.err
		case <-hedge:
		case <-ctx.Done():
			return nil, cmp.Or(last, ctx.Err())
		}
	}
	return nil, last
}

// ask makes go-redis ask one of the nodes that it knows, unless too many nodes are without a
// reply. If too many are, ask returns false. A node that was removed from the cluster replies
// that there are no masters. go-redis uses that reply, and then chooses a random node for every
// key. If no node replies in time, go-redis returns the masters that it knew before.
func (c *nodes) ask(ctx context.Context, answers chan<- topology) bool {
	if c.unanswered.Add(1) > maxUnanswered {
		c.unanswered.Add(-1)
		return false
	}
	go func() {
		defer c.unanswered.Add(-1)
		var mu sync.Mutex // go-redis calls back from several goroutines
		var masters []string
		err := c.client.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error { // ForEachMaster reads the topology first
			mu.Lock()
			defer mu.Unlock()
			masters = append(masters, master.Options().Addr)
			return nil
		})
		if err = cmp.Or(err, ctx.Err()); err != nil {
			masters = nil
		}
		slices.Sort(masters)
		answers <- topology{masters, err}
	}()
	return true
}
