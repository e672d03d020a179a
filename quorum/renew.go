package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Renew extends the claims on the nodes that hold them. A node counts for a claim if it has
// held the claim without a gap since the last confirmed renewal. A claim is renewed if a
// majority of the nodes counts and has renewed it. As soon as there cannot be such a majority
// any more, the claim is gone, and Renew releases it on the other nodes.
//
// A node that does not hold a claim, because it was down or lost the claim, gets the claim
// again in the background after a renewal. That node counts only after a majority of other
// nodes has renewed the claim once more. Such a renewal confirms that no other client held the
// name in between.
func (b *Backend) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	if err := over(ctx); err != nil {
		return nil, err
	}
	if len(cs) == 0 {
		return nil, nil
	}
	r := b.prepare(cs)
	limit := callTimeout(ctx, r.shortest)
	ended := ask(ctx, b, limit, r.nodes, func(ctx context.Context, i int) answers {
		return b.renewAt(ctx, r, i)
	}, func(i int, got answers) bool {
		return r.take(b, i, got)
	})
	renewals := make([]driver.Renewal, len(cs))
	for k := range cs {
		renewals[k] = b.concluded(r, k, cs[k], ended)
	}
	return renewals, nil
}

// round is one call of Renew.
type round struct {
	claims   []*renewal
	batches  [][]int          // by node: the indexes of the claims that it renews
	sent     [][]driver.Claim // by node: the claims that it renews, as the node knows them
	nodes    []int            // the nodes with a batch
	shortest time.Duration    // the shortest TTL of the claims
	start    time.Time
}

// renewal is what is known about one claim of a round.
type renewal struct {
	attempt  *attempt     // nil if the claim is not held
	counting map[int]bool // by node, for the nodes that count: true until the node answers
	renewed  int          // how many nodes in `counting` have renewed the claim
	failures int          // how many nodes in `counting` returned an error other than driver.ErrGone
	validFor time.Duration
	gone     error // the error of the first node that answered driver.ErrGone
	failed   nodesError
}

// answers are the answers of one node to its batch.
type answers struct {
	renewals []driver.Renewal
	err      error
}

// prepare returns a round that says which nodes have to renew which claims.
func (b *Backend) prepare(cs []driver.Claim) *round {
	r := &round{
		batches:  make([][]int, len(b.nodes)),
		sent:     make([][]driver.Claim, len(b.nodes)),
		shortest: cs[0].TTL,
		start:    time.Now(),
	}
	for k, c := range cs {
		r.shortest = min(r.shortest, c.TTL)
		v := &renewal{attempt: b.find(c), counting: map[int]bool{}}
		r.claims = append(r.claims, v)
		if v.attempt == nil || v.attempt.held() == nil {
			v.attempt = nil // not held, so it is not renewed: a Try may be under way
			continue
		}
		v.attempt.extend(r.start, c.TTL)
		for i, s := range v.attempt.held() {
			if !s.held {
				continue
			}
			r.batches[i] = append(r.batches[i], k)
			r.sent[i] = append(r.sent[i], v.attempt.at(c))
			if s.counts {
				v.counting[i] = true
			}
		}
	}
	for i, batch := range r.batches {
		if len(batch) > 0 {
			r.nodes = append(r.nodes, i)
		}
	}
	return r
}

// held returns a copy of the seats of an attempt that was won and is not being released. For
// any other attempt it returns nil.
func (a *attempt) held() []seat {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || !a.won {
		return nil
	}
	return append([]seat(nil), a.seats...)
}

// renewAt renews the claims in the batch of node i, and records which of them are gone there.
// It records them even if the answer arrives after Renew has returned.
func (b *Backend) renewAt(ctx context.Context, r *round, i int) answers {
	got, err := b.nodes[i].renew(ctx, r.sent[i])
	if err != nil {
		return answers{err: err}
	}
	for j, answer := range got {
		if errors.Is(answer.Err, driver.ErrGone) {
			r.claims[r.batches[i][j]].attempt.set(i, func(s *seat) { s.held, s.counts = false, false })
		}
	}
	return answers{renewals: got}
}

// take counts the answers of node i, and reports whether the results for all claims are known.
func (r *round) take(b *Backend, i int, got answers) bool {
	for j, k := range r.batches[i] {
		answer := driver.Renewal{Err: got.err}
		if got.err == nil {
			answer = got.renewals[j]
		}
		r.claims[k].add(b.nodes[i], i, answer)
	}
	for _, v := range r.claims {
		if !v.decided(b.majority) {
			return false
		}
	}
	return true
}

func (v *renewal) add(n *node, i int, answer driver.Renewal) {
	_, counts := v.counting[i]
	if counts {
		v.counting[i] = false
	}
	if answer.Err != nil {
		v.failed.add(n, answer.Err)
	}
	switch {
	case errors.Is(answer.Err, driver.ErrGone):
		if v.gone == nil {
			v.gone = answer.Err
		}
	case answer.Err != nil && counts:
		v.failures++
	case answer.Err != nil:
	case counts:
		if v.renewed == 0 || answer.ValidFor < v.validFor {
			v.validFor = answer.ValidFor
		}
		v.renewed++
	}
}

// unanswered returns the nodes in v.counting that have not answered.
func (v *renewal) unanswered() (nodes []int) {
	for i, waiting := range v.counting {
		if waiting {
			nodes = append(nodes, i)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// lost reports whether so many nodes have lost the claim that the nodes that count cannot be a
// majority any more.
func (v *renewal) lost(majority int) bool {
	return v.renewed+v.failures+len(v.unanswered()) < majority
}

func (v *renewal) decided(majority int) bool { return v.renewed >= majority || v.lost(majority) }

// concluded returns the result for the claim c, which has the index k in the round, and acts on
// that result. If the claim was renewed, concluded tries the claim at the nodes that do not
// hold it. If the claim is lost, concluded releases the claim. The parameter `ended` is the
// error of the context if the context has ended, and otherwise nil.
func (b *Backend) concluded(r *round, k int, c driver.Claim, ended error) driver.Renewal {
	v := r.claims[k]
	switch {
	case v.renewed >= b.majority:
		v.attempt.proved(r.start)
		b.reseed(v.attempt, c)
		return driver.Renewal{ValidFor: v.validFor - drift(max(v.validFor, c.TTL))}
	case v.lost(b.majority):
		if v.attempt != nil {
			b.withdraw(v.attempt, c)
		}
		return driver.Renewal{Err: v.reason()}
	}
	v.failed.does = fmt.Sprintf("no majority of %d nodes renewed %q", len(b.nodes), c.Name)
	for _, i := range v.unanswered() {
		v.failed.add(b.nodes[i], errNoAnswer)
	}
	if ended != nil {
		v.failed.kinds = []error{ended}
	}
	return driver.Renewal{Err: &v.failed}
}

// reason returns why a claim is gone. It takes the reason from the first node that reported the
// claim as gone, if that node gave one.
func (v *renewal) reason() *driver.GoneError {
	var first *driver.GoneError
	if errors.As(v.gone, &first) {
		return &driver.GoneError{Reason: first.Reason, Detail: "a majority of the nodes lost the claim: " + first.Error()}
	}
	return &driver.GoneError{Reason: driver.ReasonExpired, Detail: "a majority of the nodes holds nothing of the claim"}
}

// proved records a renewal by a majority of nodes that have held the attempt without a gap. The
// renewal began at the time `start`. From now on, each node that holds the attempt, and held it
// at that time, counts.
func (a *attempt) proved(start time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.seats {
		s := &a.seats[i]
		s.counts = s.counts || s.held && !s.heldFrom.After(start)
	}
}

// reseed tries the claim in the background at the nodes that do not hold it. It also tries slow
// nodes, because without such tries a client that only renews would not notice that they have
// recovered. The next renewal includes the nodes that have granted the claim by then.
func (b *Backend) reseed(a *attempt, c driver.Claim) {
	for i, s := range a.held() {
		if s.held || len(s.sem) > 0 {
			continue
		}
		limit := callTimeout(context.Background(), c.TTL)
		b.background.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			_, _ = b.claim(ctx, a, i, c, false)
		})
	}
}
