package quorum

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// oracle is a member whose answers are read from bytes. After the last byte it grants.
type oracle struct {
	*memhold.Backend // for calls that the bytes do not answer

	mu      sync.Mutex
	data    []byte
	said    []driver.Outcome // the answers to tries without an error
	renewed []driver.Renewal // the answers to renewals of the claim without an error
}

func (o *oracle) next() byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.data) == 0 {
		return 0
	}
	b := o.data[0]
	o.data = o.data[1:]
	return b
}

// fate returns the error of a call, or lets it hang.
func (o *oracle) fate(ctx context.Context) error {
	if err := sleep(ctx, time.Duration(o.next()%16)*20*time.Millisecond); err != nil {
		return err
	}
	switch o.next() % 16 {
	case 1:
		return driver.ErrNotExecuted
	case 2:
		return driver.ErrRefused
	case 3:
		return driver.ErrMismatch
	case 4:
		return &driver.GoneError{Reason: driver.ReasonDeleted}
	case 5:
		return errors.New("reset by peer")
	case 6:
		return errors.Join(driver.ErrRefused, driver.ErrNotExecuted)
	case 7:
		<-ctx.Done()
		return ctx.Err()
	case 8:
		panic("boom")
	default:
		return nil
	}
}

// lease returns a lease of at most ttl, which may be 0.
func (o *oracle) lease(ttl time.Duration) time.Duration {
	switch b := o.next(); b % 8 {
	case 0:
		return ttl
	case 1:
		return 0
	case 2:
		return 1<<63 - 1
	default:
		return ttl / time.Duration(b)
	}
}

func (o *oracle) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	if err := o.fate(ctx); err != nil {
		return driver.Outcome{Granted: true, ValidFor: c.TTL}, err // with an error the Outcome must not count
	}
	out := driver.Outcome{Token: uint64(o.next()), Holder: string(rune(o.next())), RetryAfter: o.lease(c.TTL)}
	if o.next()%3 != 1 {
		out = driver.Outcome{Granted: true, Token: out.Token, ValidFor: o.lease(c.TTL)}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.said = append(o.said, out)
	return out, nil
}

func (o *oracle) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	if err := o.fate(ctx); err != nil {
		return nil, err
	}
	rs := make([]driver.Renewal, int(o.next()%2)*int(o.next()%3)) // may be too few or too many
	if len(rs) == 0 {
		rs = make([]driver.Renewal, len(cs))
	}
	for i := range rs {
		rs[i].ValidFor = o.lease(cs[0].TTL)
		switch o.next() % 4 {
		case 1:
			rs[i].Err = &driver.GoneError{Reason: driver.ReasonNotOwner}
		case 2:
			rs[i].Err = errors.New("no idea")
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(rs) == len(cs) && rs[0].Err == nil {
		o.renewed = append(o.renewed, rs[0])
	}
	return rs, nil
}

func (o *oracle) Release(ctx context.Context, _ driver.Claim) error { return o.fate(ctx) }

// best returns the longest lease that the node has granted since its last call, and the
// longest that it has renewed; −1 for none.
func (o *oracle) best() (granted, renewed time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	granted, renewed = -1, -1
	for _, out := range o.said {
		if out.Granted {
			granted = max(granted, out.ValidFor)
		}
	}
	for _, r := range o.renewed {
		renewed = max(renewed, r.ValidFor)
	}
	o.said, o.renewed = nil, nil
	return granted, renewed
}

// FuzzVotes lets every node answer anything at any time. A grant or a renewal needs a
// majority of nodes that have answered so, for at least as long.
func FuzzVotes(f *testing.F) {
	f.Add(uint8(0), []byte{})
	f.Add(uint8(1), []byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3})
	f.Add(uint8(2), []byte{0, 7, 0, 7, 0, 7, 0, 5, 0, 8, 15, 0, 3, 3, 3})
	f.Add(uint8(1), []byte{1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 1, 2, 0, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, size uint8, data []byte) {
		if len(data) > 1<<10 {
			return
		}
		synctest.Test(t, func(t *testing.T) { elect(t, 2*int(size%3)+1, data) })
	})
}

func elect(t *testing.T, size int, data []byte) {
	var nodes []*oracle
	var members []driver.Backend
	for i := range size {
		var own []byte // every n-th byte, so that the answers of a node do not depend on the calls of others
		for j := i; j < len(data); j += size {
			own = append(own, data[j])
		}
		node := &oracle{Backend: memhold.New(), data: own}
		nodes, members = append(nodes, node), append(members, node)
	}
	b := must(t, members, nil)
	c := driver.Claim{Name: "job", Owner: "client:1", TTL: ttl, Count: 1, Tokens: 1}
	for range 3 {
		out, err := b.Try(t.Context(), c)
		if err != nil && out != (driver.Outcome{}) {
			t.Errorf("Try: got %+v beside error %v", out, err)
		}
		backed(t, "Try", nodes, out.Granted, out.ValidFor, true)
		if !out.Granted {
			continue
		}
		rs, err := b.Renew(t.Context(), []driver.Claim{c})
		if err == nil && len(rs) != 1 {
			t.Fatalf("Renew: got %d answers, want 1", len(rs))
		}
		if err == nil {
			backed(t, "Renew", nodes, rs[0].Err == nil, rs[0].ValidFor, false)
		}
	}
	c.Indeterminate = true
	_ = b.Release(t.Context(), c)
	if out, err := b.Try(t.Context(), c); out.Granted {
		t.Errorf("granted after it was given up: %+v, %v", out, err)
	}
	if err := b.Drain(context.Background()); err != nil {
		t.Error(err)
	}
}

// backed fails if the quorum reported that the claim is held for longer than a majority of
// nodes did.
func backed(t *testing.T, what string, nodes []*oracle, held bool, validFor time.Duration, try bool) {
	t.Helper()
	votes := 0
	for _, node := range nodes {
		granted, renewed := node.best()
		if !try {
			granted = renewed
		}
		if granted >= validFor {
			votes++
		}
	}
	// The lease of a node that kept nothing ends at once, which the core notices.
	if held && (votes <= len(nodes)/2 || try && validFor <= 0) {
		t.Errorf("%s: held for %v with %d of %d votes", what, validFor, votes, len(nodes))
	}
}
