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
	// mostUnanswered is how many calls to a slow node are under way at most. Further calls
	// fail at once, and are not sent.
	mostUnanswered = 64
	// mostReleases bounds the claims whose releases at one node are repeated at the same time.
	// The release of each further claim is sent once: if it fails, the lease of that claim
	// expires.
	mostReleases = 1024
)

// node is one member, and what is known about it.
type node struct {
	member     driver.Backend
	incarnator Incarnator // the member, if it is an Incarnator; otherwise nil
	label      string     // "node 2 of 5 (redis)"

	slow      atomic.Bool  // the last call to the node ended without an answer
	underWay  atomic.Int64 // the number of calls that have not ended
	releasing atomic.Int64 // the number of claims that are being released in the background

	mu        sync.Mutex
	id        string    // its incarnation; "" if unknown
	firstSeen time.Time // when the node first reported the incarnation `id`
}

func newNode(member driver.Backend, number, of int) *node {
	n := &node{member: member, label: fmt.Sprintf("node %d of %d (%s)", number, of, member.Info().Name)}
	n.incarnator, _ = member.(Incarnator)
	return n
}

// errSkipped is the error of a call that was not sent, because mostUnanswered calls to the node
// have not ended yet.
var errSkipped = fmt.Errorf("%w: the node has not answered too many calls", driver.ErrNotExecuted)

// call makes one call to a node, and records whether the node answers. It returns a panic of fn
// as an error that does not show whether the call was executed.
func call[T any](ctx context.Context, n *node, fn func(context.Context) (T, error)) (value T, err error) {
	defer n.underWay.Add(-1)
	if n.underWay.Add(1) > mostUnanswered && n.slow.Load() {
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

// errRestarted is the error of a vote that does not count: the node was restarted a short while
// ago, and may have forgotten that it granted the name to another claim before.
var errRestarted = errors.New("restarted a short while ago")

// incarnation asks the node for its incarnation, and returns how long, at least, the node has
// had that incarnation.
func (n *node) incarnation(ctx context.Context) (age time.Duration, err error) {
	type answer struct {
		id     string
		uptime time.Duration
	}
	asked := time.Now()
	a, err := call(ctx, n, func(ctx context.Context) (answer, error) {
		id, uptime, err := n.incarnator.Incarnation(ctx)
		return answer{id, uptime}, err
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("it is unknown whether the node was restarted: %w", err)
	case a.id == "":
		return 0, errors.New("it is unknown whether the node was restarted: it reports no id")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.id != n.id {
		n.id, n.firstSeen = a.id, time.Now()
	}
	return max(a.uptime, asked.Sub(n.firstSeen)), nil
}

// vouch returns nil if a grant of the node counts. The caller calls it after the grant, because
// the node may have restarted immediately before the grant. If the parameter `trusting` is
// true, vouch only checks that the incarnation of the node is known.
func (n *node) vouch(ctx context.Context, maxTTL time.Duration, trusting bool) error {
	if n.incarnator == nil || trusting && n.known() != "" {
		return nil
	}
	age, err := n.incarnation(ctx)
	if err != nil || trusting {
		return err
	}
	if least := maxTTL + drift(maxTTL); age < least {
		return fmt.Errorf("%w: the node has been up for %v, and votes only after %v", errRestarted, age.Round(time.Millisecond), least)
	}
	return nil
}

func (n *node) known() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// distinct returns an error if two nodes are the same server. After a call without an error,
// further calls check nothing.
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
		if n.incarnator != nil {
			who = append(who, i)
		}
	}
	answered := 0
	// A node that does not answer within the time `introduction` is checked when it votes.
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

// introduction is how long the first call waits for the incarnations of the nodes.
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
