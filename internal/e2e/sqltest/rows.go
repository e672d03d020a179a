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

// Test is about what a row keeps, where the specification has nothing to say of it. The Backends
// are two clients of the same table.
func (r Rows) Test(t *testing.T, b, other interface {
	driver.Backend
	driver.Batcher
},
) {
	t.Helper()
	r.alone(t, b, other)
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

// alone is about names that b wants alone, and then not alone any more. For those b sends other
// statements.
func (r Rows) alone(t *testing.T, b, other driver.Backend) {
	t.Helper()
	seq := uint64(100)
	next := func(name string) driver.Claim {
		seq++
		c := Claim(name, seq)
		c.Tokens = 3
		return c
	}
	release := func(b driver.Backend, c driver.Claim, want error) {
		t.Helper()
		if err := b.Release(t.Context(), c); !errors.Is(err, want) {
			t.Errorf("Release of %s: got %v, want %v", c.Owner, err, want)
		}
	}
	refused := func(b driver.Backend, c, holder driver.Claim) {
		t.Helper()
		if out, err := b.Try(t.Context(), c); err != nil || out.Granted || !out.Queued && out.RetryAfter < 50*time.Second {
			t.Errorf("Try of %s while %s holds: got %+v, %v, want a refusal", c.Owner, holder.Owner, out, err)
		}
	}
	used := func(name string) (c driver.Claim, token uint64) {
		t.Helper()
		c = next(name)
		token = r.grant(t, b, c).Token
		release(b, c, nil)
		return c, token
	}

	first, before := used("alone")
	again := next("alone")
	now := r.microseconds(t, r.Now)
	after := r.grant(t, b, again)
	if after.Token < before+3 || after.Token < uint64(now) || after.ValidFor != again.TTL || r.left(t, "alone") < 50*time.Second {
		t.Errorf("got %+v after token %d, %v left, want the next tokens, no smaller than the clock, and a minute", after, before, r.left(t, "alone"))
	}
	if repeated := r.grant(t, b, again); repeated.Token != after.Token {
		t.Errorf("repeated Try: got token %d, want %d", repeated.Token, after.Token)
	}
	release(b, first, driver.ErrGone)
	release(b, again, nil)
	release(b, again, driver.ErrGone)

	_, before = used("set back")
	if _, err := r.DB.Exec("UPDATE holdfast_locks SET token = token + 1000000000000 WHERE name = 'set back'"); err != nil {
		t.Fatal(err)
	}
	if out := r.grant(t, b, next("set back")); out.Token < before+1000000000000 {
		t.Errorf("got token %d with a clock that was set back, want one after %d", out.Token, before+1000000000000)
	}

	used("taken")
	theirs := next("taken")
	r.grant(t, other, theirs)
	refused(b, next("taken"), theirs)

	used("wanted")
	mine := next("wanted")
	theirs = next("wanted")
	r.grant(t, b, mine)
	refused(other, theirs, mine)
	release(b, mine, nil)
	if got := r.left(t, "wanted"); got > 0 || got < -time.Hour {
		t.Errorf("a name that somebody waits for is free since %v, want since its release", -got)
	}
	r.grant(t, other, theirs)
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
