package redishold

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

var _ driver.Reporter = (*Backend)(nil)

const (
	// reportAhead is how long before a registration is due a report writes it: so a
	// try, which would write it without the holds, need not.
	reportAhead = 10 * time.Second
	// waitLife is how long a client counts as waiting that is not heard of.
	waitLife = 10 * time.Second
	// waitRoom is for how many clients there is room at one lock.
	waitRoom = 128
	// longestReported bounds a name in a report, in bytes; names may be very long.
	longestReported = 200
)

// statement is what a client says of itself and what it holds: its registration.
// Ages are those when it was written; At is the server's clock then, in ms.
type statement struct {
	At int64 `json:"at,omitempty"`
	description
	Holds []heldText `json:"holds,omitempty"`
	More  int        `json:"more,omitempty"` // holds that are not listed
}

type heldText struct {
	Name  string `json:"name"`
	Owner string `json:"owner"`
	Kind  string `json:"kind"`
	Mode  string `json:"mode"`
	Token uint64 `json:"token,omitempty"`
	Held  int64  `json:"held_ms"`
}

// waitText is what a client says of its goroutines that wait for a name.
type waitText struct {
	At int64 `json:"at,omitempty"`
	description
	Kind   string `json:"kind"`
	Mode   string `json:"mode"`
	Waited int64  `json:"waited_ms"`
	Count  int    `json:"count"`
}

// reporter is what a Backend needs to report.
type reporter struct {
	mu    sync.Mutex
	waits map[string]map[string]bool // by client: the names that it was noted to wait for
}

// Report notes, for people, what a client holds and waits for, in one round trip.
// Holds stand in its registration, which is written when they change, and before
// it ends; those who wait, in a key beside the lock that ends soon after the last
// of them was heard of. The error is the first of the calls'.
func (b *Backend) Report(ctx context.Context, r driver.Report) error {
	if b.invalid != nil {
		return b.invalid
	}
	info, err := b.ask(ctx)
	if err != nil {
		return err
	}
	scripts := b.forPeople.load()
	var calls []Call
	if ttl, due := b.clients.reportDue(r); due {
		calls = append(calls, Call{
			Script: scripts.reportHolds,
			Keys:   []string{b.layout.client(r.Client)},
			Args:   []string{b.statement(r), strconv.FormatInt(millis(ttl), 10)},
		})
	}
	registers := len(calls) > 0
	calls = append(calls, b.reportWaits(scripts, info, r)...)
	if len(calls) == 0 {
		return nil
	}
	for i, result := range b.do(ctx, calls...) {
		if result.Err != nil {
			if i == 0 && registers {
				b.clients.retry(r.Client)
			}
			err = cmp.Or(err, fmt.Errorf("redis: report what is held: %w", result.Err))
		}
	}
	return err
}

// statement returns the registration for r.
func (b *Backend) statement(r driver.Report) string {
	s := statement{description: b.clients.self, More: r.MoreHolds}
	s.Note = r.Note
	for _, h := range r.Holds {
		s.Holds = append(s.Holds, heldText{
			Name: cutText(h.Name), Owner: h.Owner, Kind: string(admin.KindOf(h.Mode, h.ReadWrite, h.Fair)), Mode: h.Mode.String(),
			Token: h.Token, Held: h.HeldFor.Milliseconds(),
		})
	}
	return object(s)
}

// reportWaits returns the calls that note for which names r's client waits, and for
// which it does not any more.
func (b *Backend) reportWaits(scripts *peopleScripts, info ServerInfo, r driver.Report) (calls []Call) {
	call := func(name, text string) {
		p := b.layout.locate(name)
		if info.Cluster && placeable(p) != nil {
			return // nobody can lock that
		}
		calls = append(calls, Call{
			Script: scripts.reportWait,
			Keys:   []string{b.layout.waiting(p)},
			Args:   []string{r.Client, text, strconv.FormatInt(millis(waitLife), 10), strconv.Itoa(waitRoom)},
		})
	}
	now := make(map[string]bool, len(r.Waits))
	for _, w := range r.Waits {
		now[w.Name] = true
	}
	for name := range b.reporter.waitsNow(r.Client, now) {
		if !now[name] {
			call(name, "")
		}
	}
	said := make(map[string]bool, len(r.Waits)) // both sides of a read-write lock are one name: the longer wait is shown
	for _, w := range r.Waits {
		if said[w.Name] {
			continue
		}
		said[w.Name] = true
		text := waitText{
			description: b.clients.self, Kind: string(admin.KindOf(w.Mode, w.ReadWrite, false)), Mode: w.Mode.String(),
			Waited: w.Waited.Milliseconds(), Count: w.Count,
		}
		text.Note = r.Note
		call(w.Name, object(text))
	}
	return calls
}

// waitsNow replaces the names that client waits for, and returns those before.
func (r *reporter) waitsNow(client string, names map[string]bool) (before map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.waits[client]
	if len(names) > 0 {
		r.waits[client] = names
	} else {
		delete(r.waits, client)
	}
	return before
}

// object returns v as JSON.
func object(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("redishold: " + err.Error()) // cannot happen: strings and numbers only
	}
	return string(text)
}

// modeNamed is the Mode that writes itself so.
func modeNamed(name string) driver.Mode {
	for _, m := range []driver.Mode{driver.Shared, driver.Permit} {
		if m.String() == name {
			return m
		}
	}
	return driver.Exclusive
}

func cutText(s string) string { return cutTo(s, longestReported) }

func cutTo(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// reportDue reports whether the registration of r's client has to be written, and
// for how long: what it holds is not what was written last, or the registration
// is due soon. It counts as written with that.
func (r *registrar) reportDue(report driver.Report) (ttl time.Duration, ok bool) {
	uuid, now := report.Client, time.Now()
	var held strings.Builder
	for _, h := range report.Holds {
		fmt.Fprintf(&held, "%s %d\n", h.Owner, h.Token)
	}
	ttl = lastsFor(driver.Claim{TTL: report.TTL})

	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.written[uuid]
	if last.holds == held.String() && (last.holds == "" || now.Add(reportAhead).Before(last.due) && ttl <= last.ttl) {
		return 0, false
	}
	return r.write(uuid, last, ttl, held.String()), true
}

// heldSince is what a client said of one of its holds.
type heldSince struct {
	token uint64
	since time.Time
}

// holdsAt returns the holds in s by owner, which was read when the server's clock
// stood at now, in ms.
func (s *statement) holdsAt(now int64) map[string]heldSince {
	if s.At == 0 || len(s.Holds) == 0 {
		return nil
	}
	read := time.Now()
	holds := make(map[string]heldSince, len(s.Holds))
	for _, h := range s.Holds {
		holds[h.Owner] = heldSince{token: h.Token, since: read.Add(-age(now, s.At, h.Held))}
	}
	return holds
}

// age is how old something is that was so many ms old when the server's clock
// stood at then; now it stands at now. What others wrote may be nonsense.
func age(now, then, ms int64) time.Duration {
	const most = 100 * 365 * 24 * time.Hour
	old := float64(now) - float64(then) + float64(ms)
	if old > float64(most/time.Millisecond) {
		return most
	}
	return max(0, time.Duration(old)*time.Millisecond)
}

// parseStatement reads a registration; ok is false if there is none.
func parseStatement(text string) (s statement, ok bool) {
	return s, text != "" && json.Unmarshal([]byte(text), &s) == nil
}
