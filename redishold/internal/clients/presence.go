package clients

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

const (
	// waitLife is how long a client counts as waiting that does not report.
	waitTTL = 10 * time.Second
	// waitRoom is for how many clients there is room at one lock.
	maxWaits = 128
	// waitsShown is how many of them are shown.
	maxWaitsShown = 64
	// LongestReported bounds a text in a report, in bytes; names may be very long.
	LongestReported = 200
)

// statement is what a client says of itself and what it holds: its registration.
// Ages are those when it was written; At is the server's clock then, in ms.
type registrationJSON struct {
	At int64 `json:"at,omitempty"`
	Description
	Holds []holdJSON `json:"holds,omitempty"`
	More  int        `json:"more,omitempty"` // holds that are not listed
}

type holdJSON struct {
	Name  string `json:"name"`
	Owner string `json:"owner"`
	Kind  string `json:"kind"`
	Mode  string `json:"mode"`
	Token uint64 `json:"token,omitempty"`
	Held  int64  `json:"held_ms"`
}

// waitText is what a client says of its goroutines that wait for a name.
type waitJSON struct {
	At int64 `json:"at,omitempty"`
	Description
	Kind   string `json:"kind"`
	Mode   string `json:"mode"`
	Waited int64  `json:"waited_ms"`
	Count  int    `json:"count"`
}

// Report notes, for people, what a client holds and waits for, in one round trip.
// Holds stand in its registration, which is written when they change, and before
// it ends; waiters, in a key beside the lock that ends soon after the last
// of them reported. The error is the first of the calls'.
func (s *Clients) Report(ctx context.Context, r driver.Report) error {
	server, err := s.Info(ctx)
	if err != nil {
		return err
	}
	var calls []wire.Call
	ttl, registers := s.names.reportDue(r)
	if registers {
		calls = append(calls, wire.Call{
			Script: s.Script("report"),
			Keys:   []string{s.Layout.Registration(r.Client)},
			Args:   []string{s.statement(r), wire.MS(ttl)},
		})
	}
	calls = append(calls, s.reportWaits(server.Cluster, r)...)
	if len(calls) == 0 {
		return nil
	}
	for i, result := range s.Do(ctx, calls...) {
		if result.Err != nil {
			if i == 0 && registers {
				s.names.retry(r.Client)
			}
			err = cmp.Or(err, fmt.Errorf("redis: report what is held: %w", result.Err))
		}
	}
	return err
}

func (s *Clients) statement(r driver.Report) string {
	text := registrationJSON{Description: s.Self(r.Note), More: r.MoreHolds}
	for _, h := range r.Holds {
		text.Holds = append(text.Holds, holdJSON{
			Name: Cut(h.Name, LongestReported), Owner: h.Owner,
			Kind: string(admin.KindOf(h.Mode, h.ReadWrite, h.Fair)), Mode: h.Mode.String(),
			Token: h.Token, Held: h.HeldFor.Milliseconds(),
		})
	}
	return JSON(text)
}

// reportWaits returns the calls that note for which names r's client waits, and for
// which it does not any more.
func (s *Clients) reportWaits(cluster bool, r driver.Report) (calls []wire.Call) {
	call := func(name, text string) {
		k := s.Layout.ComputeKeys(name)
		if cluster && layout.CheckSlots(k) != nil {
			return // nobody can lock that
		}
		calls = append(calls, wire.Call{
			Script: s.Script("report_wait"),
			Keys:   []string{s.Layout.Waiters(k)},
			Args:   []string{r.Client, text, wire.MS(waitTTL), strconv.Itoa(maxWaits)},
		})
	}
	now := make(map[string]bool, len(r.Waits))
	for _, w := range r.Waits {
		now[w.Name] = true
	}
	before, _ := s.waits.LoadAndDelete(r.Client)
	if len(now) > 0 {
		s.waits.Store(r.Client, now)
	}
	names, _ := before.(map[string]bool)
	for name := range names {
		if !now[name] {
			call(name, "")
		}
	}
	reported := make(map[string]bool, len(r.Waits)) // both sides of a read-write lock are one name: the longer wait is shown
	for _, w := range r.Waits {
		if !reported[w.Name] {
			call(w.Name, JSON(waitJSON{
				Description: s.Self(r.Note), Kind: string(admin.KindOf(w.Mode, w.ReadWrite, false)), Mode: w.Mode.String(),
				Waited: w.Waited.Milliseconds(), Count: w.Count,
			}))
		}
		reported[w.Name] = true
	}
	return calls
}

// WaitsCall asks who says that it waits for the lock at p.
func (s *Clients) WaitsCall(k layout.Keys) wire.Call {
	return wire.Call{Script: s.Script("list_waits"), Keys: []string{s.Layout.Waiters(k)}, Args: []string{strconv.Itoa(maxWaitsShown)}}
}

// ParseWaits reads the answer to that. Whatever is wrong costs only what is shown.
func (s *Clients) ParseWaits(r wire.Result) (waits []admin.ClientWait) {
	found, ok := wire.Texts(r.Value)
	if r.Err != nil || !ok || len(found)%2 != 1 {
		s.Log.Debug("redis: read who waits", "error", r.Err)
		return nil
	}
	now, _ := strconv.ParseInt(found[0], 10, 64)
	for i := 1; i < len(found) && len(waits) < maxWaitsShown; i += 2 {
		var w waitJSON
		if !layout.IsUUID(found[i]) || json.Unmarshal([]byte(found[i+1]), &w) != nil || Age(now, w.At, 0) > waitTTL {
			continue
		}
		waits = append(waits, admin.ClientWait{
			Client: w.Client(found[i]), Mode: ModeNamed(w.Mode), Waited: Age(now, w.At, w.Waited), Count: max(w.Count, 1),
		})
	}
	slices.SortStableFunc(waits, func(a, b admin.ClientWait) int {
		return cmp.Or(cmp.Compare(b.Waited/time.Second, a.Waited/time.Second), cmp.Compare(a.Client.ID, b.Client.ID))
	})
	return waits
}

// ModeNamed is the Mode that writes itself so.
func ModeNamed(name string) driver.Mode {
	for _, m := range []driver.Mode{driver.Shared, driver.Permit} {
		if m.String() == name {
			return m
		}
	}
	return driver.Exclusive
}

type knownHold struct {
	token uint64
	since time.Time
}

// holdsAt returns the holds in s by owner, which was read when the server's clock
// stood at now, in ms.
func (s *registrationJSON) holdsAt(now int64) map[string]knownHold {
	if s.At == 0 {
		return nil
	}
	read := time.Now()
	holds := make(map[string]knownHold, len(s.Holds))
	for _, h := range s.Holds {
		holds[h.Owner] = knownHold{token: h.Token, since: read.Add(-Age(now, s.At, h.Held))}
	}
	return holds
}
