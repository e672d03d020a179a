package quorum

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

func TestAdmin(t *testing.T) {
	admintest.Suite{Open: func(t *testing.T) admintest.Store { return open(t).(*Backend) }, Synctest: true}.Run(t)
}

// shown is a member that can be listed, unless it is frozen.
type shown struct {
	*memhold.Backend
	frozen bool
}

func (m *shown) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	if m.frozen {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return m.Backend.Get(ctx, names...)
}

func shownOf(t *testing.T, n int) (*Backend, []*shown) {
	t.Helper()
	var members []*shown
	var backends []driver.Backend
	for range n {
		m := &shown{Backend: memhold.New()}
		members, backends = append(members, m), append(backends, m)
	}
	return must(t, backends, nil), members
}

// holdAt takes "job" at one member, for a TTL.
func holdAt(t *testing.T, m *shown, ttl time.Duration) {
	t.Helper()
	c := driver.Claim{Name: "job", Owner: "client:1", TTL: ttl, Count: 1, Tokens: 1, Note: "somebody"}
	if out, err := m.Try(t.Context(), c); err != nil || !out.Granted {
		t.Fatalf("got %+v and error %v, want a grant", out, err)
	}
}

func listed(t *testing.T, b *Backend) (names []string) {
	t.Helper()
	for record, err := range b.List(t.Context(), admin.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, record.Name)
	}
	return names
}

// If a minority has a hold, it is not listed. If a majority has it, it lasts until the
// first of them ends.
func TestAdminShowsAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, members := shownOf(t, 5)
		holdAt(t, members[0], 10*time.Second)
		holdAt(t, members[3], 20*time.Second)
		records, err := b.Get(t.Context(), "job")
		if err != nil || records[0].Kind != "" || len(records[0].Holds) > 0 || len(listed(t, b)) > 0 {
			t.Fatalf("two of five: got %+v, %v and error %v, want a free name", records, listed(t, b), err)
		}
		holdAt(t, members[1], 30*time.Second)
		holdAt(t, members[2], 40*time.Second)
		records, err = b.Get(t.Context(), "job", "other")
		if err != nil || len(records) != 2 || records[0].Kind != admin.KindMutex || records[0].Holders != 1 || records[1].Kind != "" {
			t.Fatalf("four of five: got %+v and error %v, want one hold, and another name that is free", records, err)
		}
		if h := records[0].Holds[0]; h.Owner != "client:1" || h.Note != "somebody" || h.Token != 0 || h.Remaining != 20*time.Second {
			t.Errorf("got %+v, want what a majority has for 20s", h)
		}
		if names := listed(t, b); len(names) != 1 || names[0] != "job" {
			t.Errorf("listed %q, want job", names)
		}
	})
}

// If few members do not answer, a call takes a little longer. If many do not, it is an
// error.
func TestAdminOfFrozenMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, members := shownOf(t, 3)
		for _, m := range members {
			holdAt(t, m, time.Minute)
		}
		members[1].frozen = true
		began := time.Now()
		records, err := b.Get(t.Context(), "job")
		if took := time.Since(began); err != nil || records[0].Holders != 1 || took != restLeast {
			t.Errorf("one frozen: got %+v and error %v after %v, want the hold after %v", records, err, took, restLeast)
		}
		if err := b.ForceUnlock(t.Context(), "job", records[0].Holds[0].Holder, "a test"); err != nil {
			t.Errorf("one frozen: ForceUnlock: %v", err)
		}
		members[2].frozen = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		records, err = b.Get(ctx, "job")
		if !errors.Is(err, context.DeadlineExceeded) || records[0].Kind != admin.KindUnknown {
			t.Errorf("two frozen: got %+v and error %v, want the context's error", records, err)
		}
	})
}

// A forced unlock ends one hold: another hold of the name stays.
func TestAdminForcesTheHoldThatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := shownOf(t, 3)
		c := driver.Claim{Name: "job", Owner: "client:1", TTL: time.Minute, Count: 1, Tokens: 1}
		if out, err := b.Try(t.Context(), c); err != nil || !out.Granted {
			t.Fatalf("got %+v and error %v, want a grant", out, err)
		}
		if err := b.ForceUnlock(t.Context(), "job", admin.Holder{Owner: "client:2", Holds: 1}, "a test"); !errors.Is(err, driver.ErrGone) {
			t.Errorf("another owner: got %v, want ErrGone", err)
		}
		if err := b.ForceUnlock(t.Context(), "job", admin.Holder{Owner: "client:1", Holds: 1}, "a test"); err != nil {
			t.Fatal(err)
		}
		renewals, err := b.Renew(t.Context(), []driver.Claim{c})
		var gone *driver.GoneError
		if err != nil || !errors.As(renewals[0].Err, &gone) || gone.Reason != driver.ReasonForced {
			t.Errorf("the next renewal: got %+v and error %v, want a loss by force", renewals, err)
		}
	})
}
