package quorum

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Try asks all nodes for the claim, and returns as soon as it is certain whether a
// majority grants it. Outcome.ValidFor is the shortest lease of that majority, minus the
// drift of clocks. After a refusal, the Backend releases the grants of a minority at once, in
// the background. RetryAfter is random if no claim has a majority of the nodes.
//
// If a majority cannot be reached, the error names the failed nodes with their errors. It
// is driver.ErrNotExecuted if no node has anything of the claim, and driver.ErrRefused or
// driver.ErrMismatch if another try cannot succeed.
func (b *Backend) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	if err := over(ctx); err != nil {
		return driver.Outcome{}, err
	}
	if c.TTL > b.info.MaxTTL {
		return driver.Outcome{}, fmt.Errorf("quorum: %w: %w: a lease of %v is longer than the maximum of %v", driver.ErrInvalid, driver.ErrNotExecuted, c.TTL, b.info.MaxTTL)
	}
	if err := b.distinct(ctx); err != nil {
		return driver.Outcome{}, err
	}
	a, err := b.current(c)
	if err != nil {
		return driver.Outcome{}, err
	}
	if err := acquireSem(ctx, a.trying); err != nil {
		return driver.Outcome{}, err
	}
	defer releaseSem(a.trying)
	return b.elect(ctx, a, c)
}

// vote is the answer of a node to a try.
type vote struct {
	out driver.Outcome
	err error
}

// count is the state of an election.
type count struct {
	votes                   []*vote // by node; nil while there is none
	granted, busy, failures int
}

func (n *count) add(node int, v vote) {
	n.votes[node] = &v
	switch {
	case v.err != nil:
		n.failures++
	case v.out.Granted:
		n.granted++
	default:
		n.busy++
	}
}

// elect asks all nodes once, and returns the result of the try.
func (b *Backend) elect(ctx context.Context, a *attempt, c driver.Claim) (driver.Outcome, error) {
	start := time.Now()
	limit := callTimeout(ctx, c.TTL)
	n := count{votes: make([]*vote, len(b.nodes))}
	ended := ask(ctx, b, limit, b.all(), func(ctx context.Context, i int) vote {
		return b.vote(ctx, a, i, c)
	}, func(i int, v vote) bool {
		n.add(i, v)
		return n.granted >= b.majority || b.lostElection(n)
	})
	if err := b.sameServer(); err != nil {
		b.withdraw(a, c)
		return driver.Outcome{}, err
	}
	if n.granted >= b.majority {
		return b.win(a, c, start, n)
	}
	if ended != nil || !b.lostElection(n) {
		b.absent(&n)
	}
	if ended != nil {
		return driver.Outcome{}, b.noMajority(c, n, ended)
	}
	if n.failures > len(b.nodes)-b.majority {
		err := b.noMajority(c, n, nil)
		if len(err.kinds) > 0 { // after such an error, the core does not release the claim
			b.withdraw(a, c)
		}
		return driver.Outcome{}, err
	}
	b.withdraw(a, c)
	return b.refusal(n, time.Since(start)), nil
}

// lostElection reports whether a majority is impossible, because too many nodes have failed or
// have refused the claim.
func (b *Backend) lostElection(n count) bool {
	return len(b.nodes)-n.failures-n.busy < b.majority
}

// absent counts the nodes without an answer as failed.
func (b *Backend) absent(n *count) {
	for i := range b.nodes {
		if n.votes[i] == nil {
			n.add(i, vote{err: errNoAnswer})
		}
	}
}

// vote asks one node. If the node grants the claim, but may have been restarted shortly before,
// the answer has an error, so that it does not count. The seat of the node records the answer,
// even if the answer arrives after Try has returned.
func (b *Backend) vote(ctx context.Context, a *attempt, i int, c driver.Claim) vote {
	out, err := b.claim(ctx, a, i, c, true)
	if err == nil && out.Granted {
		err = b.nodes[i].vouch(ctx, b.info.MaxTTL, b.trusting)
	}
	return vote{out, err}
}

// claim tries the claim at one node. If the parameter `counts` is true and the node grants the
// claim, the node counts for renewals: see Renew.
func (b *Backend) claim(ctx context.Context, a *attempt, i int, c driver.Claim, counts bool) (driver.Outcome, error) {
	sem := a.seats[i].sem
	if err := acquireSem(ctx, sem); err != nil {
		return driver.Outcome{}, err
	}
	defer releaseSem(sem)
	if a.isClosed() {
		return driver.Outcome{}, errClosed
	}
	out, err := b.nodes[i].try(ctx, a.at(c))
	a.set(i, func(s *seat) {
		s.indeterminate = s.indeterminate || err != nil && !errors.Is(err, driver.ErrNotExecuted) && !errors.Is(err, driver.ErrMismatch)
		if err == nil {
			if out.Granted && !s.held {
				s.heldFrom = time.Now()
			}
			s.held = out.Granted
			s.counts = out.Granted && (counts || s.counts)
		}
	})
	return out, err
}

// errClosed is the error of a try of a claim that was released while the try was under way.
var errClosed = errors.New("the claim was given up meanwhile")

// win returns the Outcome for a majority of grants.
func (b *Backend) win(a *attempt, c driver.Claim, start time.Time, n count) (driver.Outcome, error) {
	validFor := time.Duration(math.MaxInt64)
	for _, v := range n.votes {
		if v != nil && v.err == nil && v.out.Granted {
			validFor = min(validFor, v.out.ValidFor)
		}
	}
	validFor -= drift(max(validFor, c.TTL)) // finite: at least one node has granted
	if took := time.Since(start); took >= validFor {
		return driver.Outcome{}, fmt.Errorf("quorum: a majority granted %q after %v, when nothing of its lease was left", c.Name, took.Round(time.Millisecond))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return driver.Outcome{}, &driver.GoneError{Reason: driver.ReasonExpired, Detail: errClosed.Error()}
	}
	a.won = true
	return driver.Outcome{Granted: true, ValidFor: validFor}, nil
}

// noMajority returns an error with the nodes that failed. The parameter `cause` is the error of
// the context that ended the call, or nil. If `cause` is nil, the field `kinds` of the result
// says what is certain about the claim.
func (b *Backend) noMajority(c driver.Claim, n count, cause error) *nodesError {
	e := &nodesError{does: fmt.Sprintf("no majority of %d nodes for %q", len(b.nodes), c.Name)}
	if cause != nil {
		e.kinds = []error{cause}
		e.does += fmt.Sprintf(" when the call ended (%v)", cause)
	}
	unsent, final, mismatch := 0, 0, 0
	var refusals []error
	for i, v := range n.votes {
		if v == nil || v.err == nil {
			continue
		}
		e.add(b.nodes[i], v.err)
		switch {
		case errors.Is(v.err, driver.ErrMismatch):
			mismatch++
			final++
		case errors.Is(v.err, driver.ErrRefused):
			final++
			refusals = append(refusals, v.err)
		case errors.Is(v.err, driver.ErrNotExecuted):
			unsent++
		}
	}
	if cause != nil {
		return e
	}
	spare := len(b.nodes) - b.majority
	switch {
	case mismatch > spare:
		e.kinds = []error{driver.ErrMismatch}
	case final > spare:
		e.kinds = []error{kindOf(refusals, len(refusals)-spare+mismatch)}
	case unsent == n.failures && n.granted == 0 && n.busy+n.failures == len(b.nodes):
		e.kinds = []error{driver.ErrNotExecuted}
	}
	return e
}

// kindOf returns the kind of the refusal of a quorum. The parameter `refusals` has the errors of
// the nodes that refused. A quorum is possible again when the number `enough` of these nodes
// do not refuse any more. So its refusal is one that an operator can repair if at least that
// many of the nodes have such an error.
func kindOf(refusals []error, enough int) error {
	denied, unable := 0, 0
	for _, err := range refusals {
		switch {
		case !retry.Repairable(err):
		case errors.Is(err, driver.ErrDenied):
			denied++
		default:
			unable++
		}
	}
	switch {
	case denied+unable < enough:
		return driver.ErrRefused
	case denied > 0:
		return driver.ErrDenied
	}
	return driver.ErrUnable
}

// refusal returns the Outcome of a claim that got no majority because of other claims. The
// parameter `took` is the duration of the try.
func (b *Backend) refusal(n count, took time.Duration) driver.Outcome {
	seen := refusalView{outcomes: make([]*driver.Outcome, len(b.nodes))}
	holders := tally{}
	var remaining []time.Duration
	for i, v := range n.votes {
		if v == nil || v.err != nil || v.out.Granted {
			continue
		}
		seen.outcomes[i] = &v.out
		holders.count(b.nodes[i].member.Info().Name, v.out)
		remaining = append(remaining, v.out.RetryAfter)
	}
	out := driver.Outcome{Ahead: &seen}
	for _, o := range seen.outcomes {
		out.Queued = out.Queued || o != nil && o.Queued
	}
	var most int
	out.Holder, out.HeldFor, most = holders.most()
	// If no claim has a majority, there is no holder whose release the claims could wait for.
	// They try again at random times, and the first of them gets the name.
	spread := min(max(10*took, 10*time.Millisecond), 250*time.Millisecond)
	seen.pause = time.Millisecond + rand.N(spread) //nolint:gosec // spreads competitors, protects nothing
	if most < b.majority {
		seen.split = true
		out.RetryAfter = seen.pause
		return out
	}
	if n.granted == 0 {
		seen.pause = 0
	}
	// The name is free on a majority when the leases at `needed` of the refusing nodes have
	// expired.
	slices.Sort(remaining)
	needed := max(len(remaining)-(len(b.nodes)-b.majority), 1)
	out.RetryAfter = remaining[needed-1]
	return out
}

// called is the text with which one kind of store names a holder. Each kind of store has its
// own text for the same claim, and some kinds have none.
type called struct{ store, holder string }

// votesOf counts the nodes that name the same holder.
type votesOf struct {
	nodes int
	held  time.Duration // the longest time that one of these nodes reports: another node may have granted the claim later
}

type tally map[called]votesOf

func (t tally) count(store string, o driver.Outcome) {
	by := called{store, o.Holder}
	t[by] = votesOf{t[by].nodes + 1, max(t[by].held, o.HeldFor)}
}

// most returns the holder that the largest number of nodes reports, for how long it has held
// the lock, and how many nodes may have granted the same claim. That number includes other
// kinds of store, because their texts may mean the same claim, and nodes without a text,
// because they may mean any claim.
func (t tally) most() (holder string, held time.Duration, nodes int) {
	var best, unnamed votesOf
	largest := map[string]int{} // by store: the largest number of its nodes that name the same holder
	for by, v := range t {
		if by.holder == "" {
			unnamed = votesOf{unnamed.nodes + v.nodes, max(unnamed.held, v.held)}
			continue
		}
		largest[by.store] = max(largest[by.store], v.nodes)
		if v.nodes > best.nodes {
			holder, best = by.holder, v
		}
	}
	nodes = unnamed.nodes
	for _, n := range largest {
		nodes += n
	}
	if holder == "" {
		best = unnamed
	}
	return holder, best.held, nodes
}
