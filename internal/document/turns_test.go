package document

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// turnsWalk is a sequence of steps of claims that take turns.
type turnsWalk struct {
	t       *testing.T
	doc     *Document
	now     time.Time
	claims  []driver.Claim
	waiting []bool
	trace   []string
}

func (w *turnsWalk) errorf(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("%s; after %s", fmt.Sprintf(format, args...), strings.Join(w.trace, ", "))
}

func (w *turnsWalk) steps() []string {
	steps := []string{"pass -1"}
	for i := range w.claims {
		steps = append(steps, fmt.Sprint("try ", i), fmt.Sprint("release ", i))
	}
	return steps
}

func (w *turnsWalk) do(step string) {
	w.trace = append(w.trace, step)
	var what string
	var i int
	if _, err := fmt.Sscan(step, &what, &i); err != nil {
		w.t.Fatal(err)
	}
	w.doc.Revision++
	w.doc.Purge(w.now)
	switch what {
	case "pass":
		w.now = w.now.Add(Turn / 2)
		w.doc.Purge(w.now)
	case "try":
		out, err := w.doc.TryInTurn(w.claims[i], w.now, 0)
		if err != nil {
			w.errorf("TryInTurn: %v", err)
		}
		if w.waiting[i] = !out.Granted; w.waiting[i] && !out.Queued {
			w.errorf("a refused claim has no mark")
		}
	case "release":
		w.doc.Release(w.claims[i], w.now)
		w.waiting[i] = false
	}
	w.check()
}

// granted reports whether a claim would be granted after some time, if nothing else happened.
func (w *turnsWalk) granted(i int, after time.Duration) bool {
	d, at := w.doc.Clone(), w.now.Add(after)
	d.Purge(at)
	out, err := d.TryInTurn(w.claims[i], at, 0)
	return err == nil && out.Granted
}

// check checks that no claim is told to ask later than it could be granted, and that a claim that
// waits can be granted after all leases and turns, also if all others have died.
func (w *turnsWalk) check() {
	exclusive := w.doc.Exclusive() != nil
	if len(w.doc.Grants) > 1 && (exclusive || w.doc.Kind == Semaphore && len(w.doc.Grants) > w.doc.Permits) {
		w.errorf("grants that exclude each other: %+v", w.doc.Grants)
	}
	for i, c := range w.claims {
		if !w.waiting[i] {
			continue
		}
		const most = ttl + (turnsMost+1)*Turn
		for after := time.Duration(0); ; after += Turn / 2 {
			w.checkReady(i, after)
			if w.granted(i, after) {
				if at := w.doc.ReadyAt(c); at.After(w.now.Add(after)) {
					w.errorf("claim %d can be granted after %v, and is ready after %v", i, after, at.Sub(w.now))
				}
				break
			}
			if after > most {
				w.errorf("claim %d cannot be granted within %v", i, most)
				break
			}
		}
	}
}

// checkReady checks that a claim which is ready after some time has another answer then: otherwise it
// would ask again and again.
func (w *turnsWalk) checkReady(i int, after time.Duration) {
	d, at := w.doc.Clone(), w.now.Add(after)
	d.Purge(at)
	if d.ReadyAt(w.claims[i]).After(at) {
		return
	}
	marks := len(d.Waiting)
	if out, err := d.TryInTurn(w.claims[i], at, 0); err != nil || !out.Granted && len(d.Waiting) == marks {
		w.errorf("claim %d is ready after %v, and got %+v and error %v", i, after, out, err)
	}
}

func (w *turnsWalk) signature() string {
	var b strings.Builder
	fmt.Fprint(&b, w.doc.Kind, min(w.now.Sub(w.doc.Freed), 4*Turn), w.doc.Waiting, w.waiting)
	for _, g := range w.doc.Grants {
		fmt.Fprint(&b, g.Owner, g.Expires.Sub(w.now))
	}
	return b.String()
}

// turnClaims returns claims of owners a, b and so on.
func turnClaims(changes ...func(*driver.Claim)) []driver.Claim {
	all := make([]driver.Claim, len(changes))
	for i, change := range changes {
		owner := string(rune('a' + i))
		all[i] = driver.Claim{Name: name, Owner: owner, Client: "client", Note: owner, TTL: 4 * Turn, Count: 1, Tokens: 1}
		change(&all[i])
	}
	return all
}

func mutexTurn(*driver.Claim)     {}
func readTurn(c *driver.Claim)    { c.Mode, c.ReadWrite = driver.Shared, true }
func writeTurn(c *driver.Claim)   { c.ReadWrite = true }
func permitsTurn(c *driver.Claim) { c.Mode, c.Permits = driver.Permit, 2 }

// TestAllTurns goes through all orders of steps of three claims, up to a number of steps.
func TestAllTurns(t *testing.T) {
	for kind, claims := range map[string][]driver.Claim{
		"mutexes": turnClaims(mutexTurn, mutexTurn, mutexTurn),
		"readers": turnClaims(readTurn, readTurn, writeTurn),
		"permits": turnClaims(permitsTurn, permitsTurn, permitsTurn),
	} {
		t.Run(kind, func(t *testing.T) {
			known := map[string]bool{}
			for paths, deep := [][]string{nil}, 0; deep < 12 && !t.Failed(); deep++ {
				var longer [][]string
				for _, path := range paths {
					w := &turnsWalk{t: t, doc: &Document{}, now: start(), claims: claims, waiting: make([]bool, len(claims))}
					for _, step := range path {
						w.do(step)
					}
					if at := w.signature(); known[at] {
						continue
					} else {
						known[at] = true
					}
					for _, step := range w.steps() {
						longer = append(longer, append(slices.Clone(path), step))
					}
				}
				paths = longer
			}
			t.Logf("%d situations", len(known))
		})
	}
}

// A name that became free is kept for the claim that has waited for longest, and for one Turn only.
func TestTurnOfTheFirst(t *testing.T) {
	var d Document
	now := start()
	claims := turnClaims(mutexTurn, mutexTurn, mutexTurn, mutexTurn)
	try := func(i int, want bool, ready time.Duration) {
		t.Helper()
		d.Purge(now)
		out, err := d.TryInTurn(claims[i], now, 0)
		if err != nil || out.Granted != want || !want && (!out.Queued || out.RetryAfter != ready) {
			t.Errorf("claim %d: got %+v and error %v, want granted %v, or to ask after %v", i, out, err, want, ready)
		}
	}
	try(0, true, 0)
	try(1, false, 4*Turn)
	try(2, false, 5*Turn)
	try(3, false, 6*Turn)
	d.Release(claims[0], now)
	try(0, false, 3*Turn) // it was the holder just now, and is the last of all
	try(2, false, Turn)
	now = now.Add(Turn - 1)
	try(2, false, 1)
	now = now.Add(1)
	try(2, true, 0) // claim 1 has missed its turn
	if len(d.Waiting) != 2 || d.Waiting[0].Owner != "d" || d.Waiting[1].Owner != "a" {
		t.Errorf("got marks %v, want those of d and a", d.Waiting)
	}
	d.Release(claims[2], now)
	try(3, true, 0)
	if !d.Release(claims[0], now) || len(d.Waiting) > 0 {
		t.Errorf("a claim that gives up leaves its mark: %v", d.Waiting)
	}
}

// A reader does not wait for readers, and a claim of a semaphore not for those that have room, too.
func TestTurnsOfThoseBesideEachOther(t *testing.T) {
	now := start()
	grant := func(d *Document, c driver.Claim, want bool) {
		t.Helper()
		if out, err := d.TryInTurn(c, now, 0); err != nil || out.Granted != want {
			t.Errorf("%s: got %+v and error %v, want granted %v", c.Owner, out, err, want)
		}
	}
	rw := turnClaims(writeTurn, readTurn, readTurn, writeTurn)
	var d Document
	grant(&d, rw[0], true)
	grant(&d, rw[1], false)
	grant(&d, rw[3], false)
	grant(&d, rw[2], false)
	d.Release(rw[0], now)
	grant(&d, rw[2], false) // a writer is before it, and could be granted
	grant(&d, rw[1], true)
	grant(&d, rw[2], true) // now the writer could not

	permits := turnClaims(permitsTurn, permitsTurn, permitsTurn, permitsTurn, permitsTurn)
	d = Document{}
	grant(&d, permits[0], true)
	grant(&d, permits[1], true)
	for _, c := range permits[2:] {
		grant(&d, c, false)
	}
	d.Release(permits[0], now)
	grant(&d, permits[3], false)
	d.Release(permits[1], now)
	grant(&d, permits[4], false)
	grant(&d, permits[3], true)
	grant(&d, permits[4], false)
	grant(&d, permits[2], true)
}

// The list of marks is bounded, and a claim that will not wait gets no mark.
func TestMarksAreBounded(t *testing.T) {
	var d Document
	now := start()
	for i := range MostWaiting + 3 {
		c := driver.Claim{Name: name, Owner: fmt.Sprint(i), TTL: ttl, Tokens: 1, NoQueue: i == 5}
		out, err := d.TryInTurn(c, now, 0)
		if want := i > 0 && i != 5 && i < MostWaiting+2; err != nil || out.Queued != want {
			t.Errorf("claim %d: got %+v and error %v, want queued %v", i, out, err, want)
		}
	}
	if len(d.Waiting) != MostWaiting {
		t.Errorf("got %d marks, want %d", len(d.Waiting), MostWaiting)
	}
}

// A client that has died leaves nothing but a name that stays taken for AtLeast.
func TestDismiss(t *testing.T) {
	var d Document
	now := start()
	claims := turnClaims(mutexTurn, mutexTurn, mutexTurn)
	claims[1].Client, claims[2].Client = "other", "other"
	claims[2].Fair = true
	for _, c := range claims {
		if _, err := d.TryInTurn(c, now, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.Clients(); !slices.Equal(got, []string{"client", "other"}) {
		t.Errorf("got clients %q", got)
	}
	if !d.Dismiss("other", now) || len(d.Queue)+len(d.Waiting) > 0 || d.Held("a") == nil {
		t.Errorf("the waiters have died: got %+v", d)
	}
	if d.Dismiss("other", now) || d.Dismiss("", now) {
		t.Error("there was nothing more of them")
	}
	now = now.Add(time.Millisecond)
	if !d.Dismiss("client", now) || d.InUse() || !d.Freed.Equal(now) {
		t.Errorf("the holder has died: got %+v", d)
	}
	if _, err := d.TryInTurn(claims[0], now, 0); err != nil {
		t.Fatal(err)
	}
	kept := claims[0]
	kept.AtLeast = time.Minute
	d.Release(kept, now)
	if d.Dismiss("client", now) || len(d.Grants) != 1 {
		t.Errorf("a name that is kept: got %+v", d)
	}
}
