package listing

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

const (
	maxLeases     = 4 * maxShown // maximal number of timeout keys that are read for one lock
	leasesPerCall = 500          // approximate maximal number of timeout keys that one call reads
)

// noLease is the Remaining of a reader without a timeout key, whose PTTL is -2.
const noLease = -2 * time.Millisecond

// leaseCall is a call that reads timeout keys. The key Keys[i] is of the hold holds[i].
type leaseCall struct {
	wire.Call
	holds []*admin.Hold
}

// readLeases reads the leases of the readers in `records`, and moves the readers without a lease
// to Unleased. The names of the timeout keys are only known when the locks were read, so the leases
// take a second round trip. Without readers they take none.
func (l *lister) readLeases(ctx context.Context, records []admin.Record) {
	var leases []leaseCall
	for i := range records {
		if r := &records[i]; r.Kind == admin.KindReadWrite {
			leases = l.addLeases(leases, r)
		}
	}
	if len(leases) > 0 {
		l.askLeases(ctx, leases)
	}
	for i := range records {
		if r := &records[i]; r.Kind == admin.KindReadWrite {
			dropDead(r)
		}
	}
}

// addLeases adds to `calls` the timeout keys of the readers in r, which are in one slot. A reader
// gets no lease if the lock has too many timeout keys.
func (l *lister) addLeases(calls []leaseCall, r *admin.Record) []leaseCall {
	k, added := l.Layout.LockOnly(r.Name), leaseCall{}
	for i := range r.Holds {
		h := &r.Holds[i]
		if h.Mode != driver.Shared || len(h.Owner) > layout.MaxReader {
			continue // a reader with such a long field keeps the Remaining of its lock
		}
		before := len(added.Keys)
		for n := 1; n <= h.Holds && len(added.Keys) < maxLeases; n++ {
			added.Keys, added.holds = append(added.Keys, layout.TimeoutKey(k, h.Owner, n)), append(added.holds, h)
		}
		if len(added.Keys) == before {
			h.Remaining = noLease
		}
	}
	if len(added.Keys) == 0 {
		return calls
	}
	if last := len(calls) - 1; last >= 0 && !l.server.Cluster && len(calls[last].Keys)+len(added.Keys) <= leasesPerCall {
		c := &calls[last]
		c.Keys, c.holds = append(c.Keys, added.Keys...), append(c.holds, added.holds...)
		return calls
	}
	added.Script = l.Script("list_leases")
	return append(calls, added)
}

// askLeases sets the Remaining of each hold to the longest of its leases. If the server does not
// answer, a hold keeps the Remaining of its lock.
func (l *lister) askLeases(ctx context.Context, leases []leaseCall) {
	calls := make([]wire.Call, len(leases))
	for i, c := range leases {
		calls[i] = c.Call
	}
	for i, result := range l.Do(ctx, calls...) {
		l.spent++
		list, _ := result.Value.([]any)
		if result.Err != nil || len(list) != len(leases[i].holds) {
			l.Log.Debug("redis: read the leases of readers", "error", result.Err)
			continue
		}
		for _, h := range leases[i].holds {
			h.Remaining = noLease
		}
		for j, h := range leases[i].holds {
			pttl, _ := list[j].(int64)
			h.Remaining = max(h.Remaining, wire.Remaining(pttl))
		}
	}
}

// dropDead moves the readers without a lease to r.Unleased. A thread of Redisson may hold both sides
// with one owner. In that case the Owner of the write hold is the whole field, including
// layout.WriteField, so that ForceUnlock ends the write hold.
func dropDead(r *admin.Record) {
	r.Holds = slices.DeleteFunc(r.Holds, func(h admin.Hold) bool {
		unleased := h.Mode == driver.Shared && h.Remaining == noLease
		if unleased && len(r.Unleased) < maxShown {
			h.Remaining = admin.RemainingUnknown
			r.Unleased = append(r.Unleased, h)
		}
		return unleased
	})
	reads := map[string]bool{}
	for _, h := range r.Holds {
		reads[h.Owner] = h.Mode == driver.Shared
	}
	for i, h := range r.Holds {
		if owner := strings.TrimSuffix(h.Owner, layout.WriteField); !reads[owner] {
			r.Holds[i].Owner = owner
		}
	}
	if r.Holders <= maxShown {
		r.Holders = len(r.Holds)
	}
}
