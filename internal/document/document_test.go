package document

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	name = "orders"
	ttl  = 2 * time.Second // of all claims
	tick = time.Second
)

// start is the time at which each sequence of steps begins.
func start() time.Time { return time.Unix(1_800_000_000, 0) }

// actor is a claim that may be tried, renewed and released in any order.
type actor struct {
	claim   driver.Claim
	holds   bool   // the last answer was a grant, and neither a release nor a loss followed
	waits   bool   // the last answer was a refusal
	token   uint64 // of the last grant
	retryAt time.Time
}

// walk is one sequence of steps.
type walk struct {
	t      *testing.T
	doc    Document
	now    time.Time
	actors []*actor
	last   uint64 // the largest token so far
	trace  []string
}

func newWalk(t *testing.T, claims []driver.Claim) *walk {
	w := &walk{t: t, now: start()}
	for _, c := range claims {
		w.actors = append(w.actors, &actor{claim: c})
	}
	return w
}

// steps returns all steps that are possible.
func (w *walk) steps() []string {
	steps := []string{"time passes"}
	for i, a := range w.actors {
		steps = append(steps, fmt.Sprint("try ", i), fmt.Sprint("release ", i))
		if a.holds || a.waits {
			steps = append(steps, fmt.Sprint("renew ", i))
		}
		if a.holds {
			steps = append(steps, fmt.Sprint("end ", i))
		}
	}
	return steps
}

func (w *walk) do(step string) {
	w.trace = append(w.trace, step)
	grantable := w.grantable()
	if step == "time passes" {
		w.now = w.now.Add(tick)
		w.doc.Purge(w.now)
		w.wake(w.doc.TakeWoken())
		for i, granted := range w.grantable() {
			if a := w.actors[i]; granted && !grantable[i] && a.retryAt.After(w.now) {
				w.errorf("claim %d could be granted now, and was told to ask %v later", i, a.retryAt.Sub(w.now))
			}
		}
		w.check()
		return
	}
	var what string
	var i int
	if _, err := fmt.Sscan(step, &what, &i); err != nil {
		w.t.Fatal(err)
	}
	a := w.actors[i]
	switch what {
	case "try":
		w.try(a)
	case "release":
		had := w.doc.Held(a.claim.Owner) != nil || w.doc.Position(a.claim.Owner) >= 0
		if ok := w.doc.Release(a.claim, w.now); ok != had {
			w.errorf("Release: got %v, want %v", ok, had)
		}
		a.holds, a.waits = false, false
	case "renew":
		validFor, ok := w.doc.Renew(a.claim, w.now)
		if ok != (w.doc.Held(a.claim.Owner) != nil || w.doc.Position(a.claim.Owner) >= 0) || ok && validFor <= 0 {
			w.errorf("Renew: got %v and %v", validFor, ok)
		}
	case "end":
		g, ok := w.doc.End(a.claim.Owner, w.now)
		if ok && g.Owner != a.claim.Owner {
			w.errorf("End: got the grant of %s", g.Owner)
		}
		a.holds = false
	}
	w.checkWoken(a, grantable)
	w.check()
}

func (w *walk) try(a *actor) {
	before := w.doc.Held(a.claim.Owner) != nil
	ahead := w.doc.Position(a.claim.Owner) > 0
	out, err := w.doc.Try(a.claim, w.now, 0)
	if err != nil {
		if !errors.Is(err, driver.ErrMismatch) {
			w.errorf("Try: %v", err)
		}
		return
	}
	a.holds, a.waits = out.Granted, !out.Granted
	if !out.Granted {
		a.retryAt = w.now.Add(out.RetryAfter)
		if out.RetryAfter <= 0 {
			w.errorf("Try was refused, and says to ask again after %v", out.RetryAfter)
		}
		return
	}
	if !before && out.Token <= w.last {
		w.errorf("token %d after %d", out.Token, w.last)
	}
	if ahead && a.claim.Fair && !before {
		w.errorf("a fair claim was granted before another")
	}
	w.last = max(w.last, out.Token)
	a.token = out.Token
}

// grantable returns which waiting claims another Try would grant now.
func (w *walk) grantable() []bool {
	list := make([]bool, len(w.actors))
	for i, a := range w.actors {
		if a.waits {
			copied := w.doc
			copied.Grants, copied.Queue = slices.Clone(w.doc.Grants), slices.Clone(w.doc.Queue)
			out, err := copied.Try(a.claim, w.now, 0)
			list[i] = err == nil && out.Granted
		}
	}
	return list
}

// checkWoken checks that a step has woken all claims that it made grantable, and no claim that it
// did not concern.
func (w *walk) checkWoken(by *actor, before []bool) {
	woken := w.doc.TakeWoken()
	for i, now := range w.grantable() {
		a := w.actors[i]
		if a == by || !now || before[i] {
			continue
		}
		queued := w.doc.Position(a.claim.Owner) >= 0
		if !slices.Contains(woken, a.claim.Owner) && (queued || !slices.Contains(woken, Everybody)) {
			w.errorf("claim %d could be granted now, and only %q were woken", i, woken)
		}
	}
	w.wake(woken)
}

// wake records that claims were woken: each of them asks again before it waits.
func (w *walk) wake(woken []string) {
	for _, a := range w.actors {
		queued := w.doc.Position(a.claim.Owner) >= 0
		if slices.Contains(woken, a.claim.Owner) || !queued && slices.Contains(woken, Everybody) {
			a.waits = false
		}
	}
}

// check checks what is always true.
func (w *walk) check() {
	exclusive, shared, permits := 0, 0, 0
	for _, g := range w.doc.Grants {
		switch g.Mode {
		case driver.Exclusive:
			exclusive++
		case driver.Shared:
			shared++
		case driver.Permit:
			permits++
		}
		if !w.now.Before(g.Expires) {
			w.errorf("the grant of %s has expired", g.Owner)
		}
	}
	if exclusive > 1 || exclusive == 1 && shared > 0 || permits > w.doc.Permits {
		w.errorf("%d exclusive, %d shared grants, %d of %d permits", exclusive, shared, permits, w.doc.Permits)
	}
	if !w.doc.InUse() && len(w.doc.Grants)+len(w.doc.Queue) > 0 {
		w.errorf("a name with grants or places is not in use")
	}
}

func (w *walk) errorf(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("%s; after %s", fmt.Sprintf(format, args...), strings.Join(w.trace, ", "))
}

// signature returns all that decides what can come next, with times as durations from now.
func (w *walk) signature() string {
	var b strings.Builder
	fmt.Fprint(&b, w.doc.Kind, w.doc.Permits)
	for _, g := range w.doc.Grants {
		fmt.Fprint(&b, " ", g.Owner, g.Expires.Sub(w.now))
	}
	for _, p := range w.doc.Queue {
		fmt.Fprint(&b, " ", p.Owner, p.Expires.Sub(w.now))
	}
	for _, a := range w.actors {
		fmt.Fprint(&b, " ", a.holds, a.waits)
	}
	return b.String()
}

// TestAllSequences goes through all orders of steps of a few claims, until nothing new can come.
func TestAllSequences(t *testing.T) {
	claim := func(owner string, change func(*driver.Claim)) driver.Claim {
		c := driver.Claim{Name: name, Owner: owner, Client: "client", Note: owner, TTL: ttl, Count: 1, Tokens: 1}
		if change != nil {
			change(&c)
		}
		return c
	}
	fair := func(c *driver.Claim) { c.Fair = true }
	reads := func(c *driver.Claim) { c.Mode, c.ReadWrite = driver.Shared, true }
	writes := func(c *driver.Claim) { c.ReadWrite = true }
	permit := func(c *driver.Claim) { c.Mode, c.Permits = driver.Permit, 2 }
	for _, tt := range []struct {
		name   string
		claims []driver.Claim
	}{
		{"mutexes", []driver.Claim{claim("a", nil), claim("b", nil), claim("c", nil)}},
		{"fair and unfair", []driver.Claim{claim("a", fair), claim("b", fair), claim("c", nil)}},
		{"readers and writers", []driver.Claim{claim("r", reads), claim("s", reads), claim("w", writes)}},
		{"permits", []driver.Claim{claim("p", permit), claim("q", permit), claim("r", permit)}},
		{"two kinds", []driver.Claim{claim("a", nil), claim("r", reads), claim("p", permit)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a Document starts no goroutine
				walkEverywhere(t, tt.claims)
			})
		})
	}
}

// walkEverywhere makes all sequences of steps. It goes on from a situation only once.
func walkEverywhere(t *testing.T, claims []driver.Claim) {
	known := map[string]bool{}
	sequences := 0
	for paths := [][]string{nil}; len(paths) > 0 && !t.Failed(); {
		var longer [][]string
		for _, path := range paths {
			sequences++
			w := newWalk(t, claims)
			for _, step := range path {
				w.do(step)
			}
			at := w.signature()
			if known[at] {
				continue
			}
			known[at] = true
			for _, step := range w.steps() {
				longer = append(longer, append(slices.Clone(path), step))
			}
		}
		paths = longer
	}
	t.Logf("%d sequences, %d situations", sequences, len(known))
}

// No try and no renewal shortens a lease.
func TestLeaseIsNotShortened(t *testing.T) {
	var d Document
	now := start()
	long := driver.Claim{Name: name, Owner: "a", TTL: time.Hour, Count: 1, Tokens: 1}
	short := long
	short.TTL = time.Minute
	for _, step := range []func() (time.Duration, error){
		func() (time.Duration, error) { out, err := d.Try(long, now, 0); return out.ValidFor, err },
		func() (time.Duration, error) { out, err := d.Try(short, now, 0); return out.ValidFor, err },
		func() (time.Duration, error) { validFor, _ := d.Renew(short, now); return validFor, nil },
	} {
		if validFor, err := step(); validFor != time.Hour || err != nil {
			t.Errorf("got %v and error %v, want an hour", validFor, err)
		}
	}
}

// A fair claim keeps its place as long as it is tried or renewed, and is told to ask before the
// place ends, and when a claim before it may lose its own.
func TestPlaceInTheQueue(t *testing.T) {
	var d Document
	now := start()
	claim := func(owner string) driver.Claim {
		return driver.Claim{Name: name, Owner: owner, TTL: time.Hour, Count: 1, Tokens: 1, Fair: true}
	}
	try := func(owner string, want time.Duration) {
		t.Helper()
		d.Purge(now)
		if out, err := d.Try(claim(owner), now, 0); err != nil || out.Granted || !out.Queued || out.RetryAfter != want {
			t.Errorf("%s: got %+v and error %v, want a place, and to ask again after %v", owner, out, err, want)
		}
	}
	if out, err := d.Try(claim("holder"), now, 0); err != nil || !out.Granted {
		t.Fatalf("got %+v and error %v, want a grant", out, err)
	}
	try("first", Presence/3)
	now = now.Add(Presence - time.Second)
	try("second", time.Second) // then the place of the first ends
	now = now.Add(time.Second)
	d.Purge(now)
	if d.Position("first") != -1 || d.Position("second") != 0 {
		t.Errorf("got positions %d and %d after the place of the first has ended, want -1 and 0", d.Position("first"), d.Position("second"))
	}
	for range 3 {
		now = now.Add(Presence - 1)
		try("second", Presence/3)
		try("third", Presence/3)
		if d.Position("second") != 0 || d.Position("third") != 1 {
			t.Errorf("got positions %d and %d, want 0 and 1", d.Position("second"), d.Position("third"))
		}
	}
	now = now.Add(Presence - 1)
	if validFor, ok := d.Renew(claim("second"), now); !ok || validFor != Presence {
		t.Errorf("Renew of a place: got %v and %v, want %v", validFor, ok, Presence)
	}
	now = now.Add(Presence)
	if d.Purge(now); d.Position("second") != -1 {
		t.Error("a place outlasts its claim")
	}
}

// A block of tokens begins above the last token and the floor, and ends at the clock if it can.
func TestTokens(t *testing.T) {
	now := start()
	clock := uint64(now.UnixMicro())
	for _, tt := range []struct {
		last, floor, want uint64
		n                 int
	}{
		{0, 0, clock, 1},
		{0, 0, clock - 63, 64},
		{clock - 1, 0, clock, 1},
		{clock - 10, 0, clock - 9, 64},
		{clock - 100, clock - 20, clock - 2, 3},
		{clock + 7, 0, clock + 8, 2},
		{clock + 7, clock + 20, clock + 20, 2},
	} {
		d := Document{Last: tt.last}
		out, err := d.Try(driver.Claim{Name: name, Owner: "a", TTL: ttl, Tokens: tt.n}, now, tt.floor)
		if err != nil || out.Token != tt.want || d.Last != tt.want+uint64(tt.n)-1 {
			t.Errorf("after %d with a floor of %d: got token %d, last %d (error %v), want token %d", tt.last, tt.floor, out.Token, d.Last, err, tt.want)
		}
	}
}
