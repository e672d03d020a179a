package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// mostUnanswered bounds the calls under way to a node that does not answer;
	// more are not sent, which is an answer at once.
	mostUnanswered = 64
	// mostReleases bounds the claims of one node that wait to be released. More
	// than that are left to the end of their leases.
	mostReleases = 1024
)

// node is one member and what is known of it.
type node struct {
	member driver.Backend
	who    Incarnator // the member, or nil
	label  string     // "node 2 of 5 (redis)"

	slow      atomic.Bool  // its last call ended without an answer
	underway  atomic.Int64 // calls
	releasing atomic.Int64 // claims that are released in the background

	mu    sync.Mutex
	id    string    // its incarnation; "" while unknown
	since time.Time // when that was first seen
}

func newNode(member driver.Backend, number, of int) *node {
	n := &node{member: member, label: fmt.Sprintf("node %d of %d (%s)", number, of, member.Info().Name)}
	n.who, _ = member.(Incarnator)
	return n
}

// errSkipped says that a node was not asked.
var errSkipped = fmt.Errorf("%w: too many calls to it are unanswered", driver.ErrNotExecuted)

// call runs one call to a node and notes whether the node answers. A panic is an
// error of which nothing is known.
func call[T any](ctx context.Context, n *node, fn func(context.Context) (T, error)) (value T, err error) {
	defer n.underway.Add(-1)
	if n.underway.Add(1) > mostUnanswered && n.slow.Load() {
		return value, errSkipped
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil:
			n.slow.Store(true)
		case ctx.Err() == nil:
			n.slow.Store(false)
		}
	}()
	return fn(ctx)
}

func (n *node) try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	return call(ctx, n, func(ctx context.Context) (driver.Outcome, error) { return n.member.Try(ctx, c) })
}

func (n *node) renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	answers, err := call(ctx, n, func(ctx context.Context) ([]driver.Renewal, error) { return n.member.Renew(ctx, cs) })
	if err == nil && len(answers) != len(cs) {
		err = fmt.Errorf("%d answers to %d renewals", len(answers), len(cs))
	}
	return answers, err
}

func (n *node) release(ctx context.Context, c driver.Claim) error {
	_, err := call(ctx, n, func(ctx context.Context) (struct{}, error) { return struct{}{}, n.member.Release(ctx, c) })
	return err
}

// errRestarted says that a vote does not count, because the node may have given
// another one before it lost its memory.
var errRestarted = errors.New("restarted a short while ago")

// incarnation asks who the node is, and returns for how long it certainly has
// been that.
func (n *node) incarnation(ctx context.Context) (age time.Duration, err error) {
	type answer struct {
		id     string
		uptime time.Duration
	}
	asked := time.Now()
	a, err := call(ctx, n, func(ctx context.Context) (answer, error) {
		id, uptime, err := n.who.Incarnation(ctx)
		return answer{id, uptime}, err
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("cannot tell whether it was restarted: %w", err)
	case a.id == "":
		return 0, errors.New("cannot tell whether it was restarted: it has no id")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.id != n.id {
		n.id, n.since = a.id, time.Now()
	}
	return max(a.uptime, asked.Sub(n.since)), nil
}

// vouch returns nil if a grant that the node answered before the call counts. It
// asks after the grant, for the node may have been restarted right before.
func (n *node) vouch(ctx context.Context, maxTTL time.Duration, trusting bool) error {
	if n.who == nil || trusting && n.known() != "" {
		return nil
	}
	age, err := n.incarnation(ctx)
	if err != nil || trusting {
		return err
	}
	if least := maxTTL + drift(maxTTL); age < least {
		return fmt.Errorf("%w: it has been up for %v, and votes from %v on", errRestarted, age.Round(time.Millisecond), least)
	}
	return nil
}

func (n *node) known() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// distinct finds out, at the first call and as long as there is something to
// complain of, whether two nodes are the same server.
func (b *Backend) distinct(ctx context.Context) error {
	if b.checked.Load() {
		return nil
	}
	select {
	case b.checking <- struct{}{}:
		defer func() { <-b.checking }()
	case <-ctx.Done():
		return notSent(ctx.Err())
	}
	if b.checked.Load() {
		return nil
	}
	var who []int
	for i, n := range b.nodes {
		if n.who != nil {
			who = append(who, i)
		}
	}
	answered := 0
	// A node that does not answer soon is looked at when it votes.
	err := ask(ctx, b, introduction, who, func(ctx context.Context, i int) error {
		_, err := b.nodes[i].incarnation(ctx)
		return err
	}, func(_ int, err error) bool {
		if err == nil {
			answered++
		}
		return answered == len(who)
	})
	if err != nil {
		return notSent(err)
	}
	if err := b.sameServer(); err != nil {
		return err
	}
	b.checked.Store(true)
	return nil
}

// introduction is how long the first call waits for nodes to say who they are.
const introduction = 50 * time.Millisecond

// sameServer returns an error if two nodes are known to be one server.
func (b *Backend) sameServer() error {
	seen := map[string]*node{}
	for _, n := range b.nodes {
		id := n.known()
		if other := seen[id]; id != "" && other != nil {
			b.checked.Store(false)
			return fmt.Errorf("quorum: %s and %s are the same server (run id %s): %w: %w",
				other.label, n.label, id, driver.ErrRefused, driver.ErrNotExecuted)
		}
		seen[id] = n
	}
	return nil
}
