//go:build unix

package sqltest

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Claim returns a claim of a minute, by an owner of that number.
func Claim(name string, seq uint64) driver.Claim {
	return driver.Claim{Name: name, Client: "c", Seq: seq, Owner: fmt.Sprint("c:", seq), TTL: time.Minute, Count: 1, Tokens: 1}
}

// Rows are those of a Backend with the usual table in DB. Left and Now are queries, in
// microseconds, for what is left of the lease of a name, %s, and for the server's time.
type Rows struct {
	DB        *sql.DB
	Left, Now string
}

// Test is about what a row keeps, where the specification has nothing to say of it.
func (r Rows) Test(t *testing.T, b interface {
	driver.Backend
	driver.Batcher
},
) {
	t.Helper()
	grant := func(name string, seq uint64) (driver.Claim, driver.Outcome) {
		t.Helper()
		c := Claim(name, seq)
		c.Tokens = 3
		return c, r.grant(t, b, c)
	}

	// Nothing is changed by a try with a shorter lease: that is a grant all the same.
	c, first := grant("job", 1)
	c.TTL = time.Second
	if again := r.grant(t, b, c); again.Token != first.Token {
		t.Errorf("repeated Try: got token %d, want %d", again.Token, first.Token)
	}
	for _, cs := range [][]driver.Claim{{c}, {c, Claim("none", 9)}} {
		if _, err := b.Renew(t.Context(), cs); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.left(t, "job"); got < 50*time.Second {
		t.Errorf("after a try and renewals with a short lease %v are left, want the minute of before", got)
	}

	// AtLeast counts from the release, and shortens what is left of the lease.
	c, _ = grant("kept", 2)
	c.AtLeast = 5 * time.Second
	if err := b.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := r.left(t, "kept"); got <= 0 || got > 5*time.Second {
		t.Errorf("a name that stays taken for 5 s does so for %v", got)
	}

	// A token is never below the clock, so that a row may be deleted.
	now := r.microseconds(t, r.Now)
	if _, out := grant("token", 3); out.Token < uint64(now) {
		t.Errorf("token: got %d, want at least the time, %d", out.Token, now)
	}

	// What expired is gone in a batch too.
	batch := make([]driver.Claim, 3)
	for i := range batch {
		batch[i], _ = grant(fmt.Sprint("batch ", i), uint64(10+i))
	}
	if _, err := r.DB.Exec("UPDATE holdfast_locks SET expires = since WHERE name LIKE 'batch %'"); err != nil {
		t.Fatal(err)
	}
	renewed, err := b.Renew(t.Context(), batch)
	for i, released := range b.ReleaseAll(t.Context(), batch) {
		if err != nil || !errors.Is(renewed[i].Err, driver.ErrGone) || !errors.Is(released, driver.ErrGone) {
			t.Errorf("claim %d after its lease: Renew %v, ReleaseAll %v, want ErrGone of both", i, renewed[i].Err, released)
		}
	}
}

func (Rows) grant(t *testing.T, b driver.Backend, c driver.Claim) driver.Outcome {
	t.Helper()
	out, err := b.Try(t.Context(), c)
	if err != nil || !out.Granted {
		t.Fatalf("Try of %s: got %+v, %v, want a grant", c.Owner, out, err)
	}
	return out
}

func (r Rows) left(t *testing.T, name string) time.Duration {
	t.Helper()
	return time.Duration(r.microseconds(t, fmt.Sprintf(r.Left, name))) * time.Microsecond
}

func (r Rows) microseconds(t *testing.T, query string) (n int64) {
	t.Helper()
	if err := r.DB.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
