package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Renew extends the claims on the nodes that hold them. A claim is renewed if a majority
// renewed it, of nodes that have held it without a gap since the last confirmed renewal.
// As soon as there cannot be such a majority any more, the claim is gone, and is released
// on the other nodes.
//
// A node that does not hold a claim, because it was down or lost it, gets it again in the
// background after a renewal. Its vote counts only after a majority without it has
// renewed once more. That confirms that no other client held the name in between.
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
	batches  [][]int          // by node: which of the claims it is asked for
	sent     [][]driver.Claim // by node: these claims as the node knows them
	nodes    []int            // those that are asked for any
	shortest time.Duration    // TTL
	start    time.Time
}

// renewal is what is known of one claim of a round.
type renewal struct {
	attempt  *attempt     // nil if there is none
	core     map[int]bool // the nodes that count; true for those that have not answered
	renewed  int          // of them
	failures int          // of them, without saying that the claim is gone
	validFor time.Duration
	gone     error // what the first node said that had lost it
	failed   nodesError
}

// answers are what one node says of its batch.
type answers struct {
	renewals []driver.Renewal
	err      error
}

// prepare finds out which nodes are asked for what.
func (b *Backend) prepare(cs []driver.Claim) *round {
	r := &round{
		batches:  make([][]int, len(b.nodes)),
		sent:     make([][]driver.Claim, len(b.nodes)),
		shortest: cs[0].TTL,
		start:    time.Now(),
	}
	for k, c := range cs {
		r.shortest = min(r.shortest, c.TTL)
		v := &renewal{attempt: b.find(c), core: map[int]bool{}}
		r.claims = append(r.claims, v)
		if v.attempt == nil || v.attempt.held() == nil {
			v.attempt = nil // it is not held, and a caller that tries it goes on
			continue
		}
		v.attempt.extend(r.start, c.TTL)
		for i, s := range v.attempt.held() {
			if !s.held {
				continue
			}
			r.batches[i] = append(r.batches[i], k)
			r.sent[i] = append(r.sent[i], v.attempt.at(c))
			if s.core {
				v.core[i] = true
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

// held returns the seats of an attempt that is won and not released.
func (a *attempt) held() []seat {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || !a.won {
		return nil
	}
	return append([]seat(nil), a.seats...)
}

// renewAt asks one node, and keeps what it says is lost, however late.
func (b *Backend) renewAt(ctx context.Context, r *round, i int) answers {
	got, err := b.nodes[i].renew(ctx, r.sent[i])
	if err != nil {
		return answers{err: err}
	}
	for j, answer := range got {
		if errors.Is(answer.Err, driver.ErrGone) {
			r.claims[r.batches[i][j]].attempt.set(i, func(s *seat) { s.held, s.core = false, false })
		}
	}
	return answers{renewals: got}
}

// take counts what a node said, and reports whether all claims are decided.
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
	_, core := v.core[i]
	if core {
		v.core[i] = false
	}
	if answer.Err != nil {
		v.failed.add(n, answer.Err)
	}
	switch {
	case errors.Is(answer.Err, driver.ErrGone):
		if v.gone == nil {
			v.gone = answer.Err
		}
	case answer.Err != nil && core:
		v.failures++
	case answer.Err != nil:
	case core:
		if v.renewed == 0 || answer.ValidFor < v.validFor {
			v.validFor = answer.ValidFor
		}
		v.renewed++
	}
}

// unanswered returns the nodes that count and have not answered.
func (v *renewal) unanswered() (nodes []int) {
	for i, waiting := range v.core {
		if waiting {
			nodes = append(nodes, i)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// lost reports that no majority can have held the claim all the time.
func (v *renewal) lost(majority int) bool {
	return v.renewed+v.failures+len(v.unanswered()) < majority
}

func (v *renewal) decided(majority int) bool { return v.renewed >= majority || v.lost(majority) }

// concluded makes an answer of what the nodes said of a claim, and does what
// follows from it.
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

// reason says why a claim is gone: what the first node said, if one did.
func (v *renewal) reason() *driver.GoneError {
	var said *driver.GoneError
	if errors.As(v.gone, &said) {
		return &driver.GoneError{Reason: said.Reason, Detail: "a majority of the nodes lost the claim: " + said.Error()}
	}
	return &driver.GoneError{Reason: driver.ReasonExpired, Detail: "a majority of the nodes holds nothing of the claim"}
}

// proved follows a renewal by a majority that held the attempt until now, or at
// least until start. Nodes that held it by then count from now on.
func (a *attempt) proved(start time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.seats {
		s := &a.seats[i]
		s.core = s.core || s.held && !s.since.After(start)
	}
}

// reseed asks the nodes that have nothing of a claim for it, slow ones too: a client
// that only renews would not learn that they have recovered. The next renewal shows
// what came of it.
func (b *Backend) reseed(a *attempt, c driver.Claim) {
	for i, s := range a.held() {
		if s.held || len(s.turn) > 0 {
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
