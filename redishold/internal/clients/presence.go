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
	// waitTTL is how long a client counts as waiting after its last report.
	waitTTL = 10 * time.Second
	// maxWaits is the maximal number of waiting clients that are stored for one lock.
	maxWaits = 128
	// maxWaitsShown is the maximal number of waiting clients that ParseWaits returns for one
	// lock.
	maxWaitsShown = 64
	// LongestReported is the maximal number of bytes of a text in a report. Longer texts are cut
	// off, because names may be very long.
	LongestReported = 200
)

// registrationJSON is the registration of a client: its Description and its holds. The field At
// is the server time in ms at which the registration was written. The ages in Holds are those at
// that time.
type registrationJSON struct {
	At int64 `json:"at,omitempty"`
	Description
	Holds []holdJSON `json:"holds,omitempty"`
	More  int        `json:"more,omitempty"` // number of holds that are not in Holds
}

type holdJSON struct {
	Name  string `json:"name"`
	Owner string `json:"owner"`
	Kind  string `json:"kind"`
	Mode  string `json:"mode"`
	Token uint64 `json:"token,omitempty"`
	Held  int64  `json:"held_ms"`
}

// waitJSON is the report of a client about its goroutines that wait for a name.
type waitJSON struct {
	At int64 `json:"at,omitempty"`
	Description
	Kind   string `json:"kind"`
	Mode   string `json:"mode"`
	Waited int64  `json:"waited_ms"`
	Count  int    `json:"count"`
}

// Report stores which locks a client holds and waits for, so that operators can see it. It takes
// one round trip. The holds are stored in the registration of the client. Report writes this
// registration if the holds have changed, or if the registration expires soon. The waits are
// stored in one key for each lock. This key expires soon after the last report. If calls fail,
// Report returns the error of the first one.
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
			Args:   []string{s.registrationOf(r), wire.MS(ttl)},
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

// registrationOf returns the registration for a report.
func (s *Clients) registrationOf(r driver.Report) string {
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

// reportWaits returns the calls that store the waits of r, and the calls that remove the waits
// of the last report that are not in r.
func (s *Clients) reportWaits(cluster bool, r driver.Report) (calls []wire.Call) {
	call := func(name, text string) {
		k := s.Layout.ComputeKeys(name)
		if cluster && layout.CheckSlots(k) != nil {
			return // the cluster cannot have this lock
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
	reported := make(map[string]bool, len(r.Waits)) // both sides of a read-write lock have one name: only the longer wait, which comes first, is stored
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

// WaitsCall returns the call that lists the clients that wait for a lock.
func (s *Clients) WaitsCall(k layout.Keys) wire.Call {
	return wire.Call{Script: s.Script("list_waits"), Keys: []string{s.Layout.Waiters(k)}, Args: []string{strconv.Itoa(maxWaitsShown)}}
}

// ParseWaits returns the waits in r, the result of the call from WaitsCall. It returns nil
// after an error, and leaves out waits that are not valid.
func (s *Clients) ParseWaits(r wire.Result) (waits []admin.ClientWait) {
	found, ok := wire.Texts(r.Value)
	if r.Err != nil || !ok || len(found)%2 != 1 {
		s.Log.Debug("redis: read the waiters", "error", r.Err)
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

// ModeNamed returns the Mode whose method String returns `name`. If there is no such Mode, it
// returns Exclusive.
func ModeNamed(name string) driver.Mode {
	for _, m := range []driver.Mode{driver.Shared, driver.Permit} {
		if m.String() == name {
			return m
		}
	}
	return driver.Exclusive
}

// knownHold is a hold in a registration.
type knownHold struct {
	token uint64
	since time.Time
}

// holdsAt returns the holds in s by owner. The parameter `now` is the server time in ms at
// which s was read.
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
