package dash

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
)

const mostNames = 50_000 // the most names that the table keeps; if a store has more, the pages show only a part

// table has the known states of all names, and the state of the scan.
type table struct {
	*observe.Observer
	first <-chan struct{} // closed when a scan has found more names than a page shows, or is complete
	open  func()          // closes the channel `first`; it may be called again

	plan *plan
	mu   sync.Mutex
	scan scan
}

// due returns those of `names` whose known state is older than the time `before`. The name
// whose last poll is the oldest comes first.
func (t *table) due(names []string, before time.Time) []string {
	polled := map[string]time.Time{}
	for _, name := range names {
		if s, known := t.Get(name); known && s.Seen.Before(before) {
			polled[name] = s.Asked
		}
	}
	return slices.SortedFunc(maps.Keys(polled), func(a, b string) int {
		return cmp.Or(polled[a].Compare(polled[b]), cmp.Compare(a, b))
	})
}

// totals are sums over some names: how many names, holds and waiters there are.
type totals struct {
	Names, Held, Waiting int
	Hidden               bool // there may be waiters that the store does not show
}

func sum(states iter.Seq[observe.State]) (t totals) {
	for s := range states {
		t.Names++
		t.Held += s.Holders
		t.Waiting += waiting(s.Record)
		t.Hidden = t.Hidden || waitersHidden(s.Record)
	}
	return t
}

// waiting returns the number of waiters of r, as far as the store shows: those in the queue,
// and the clients that listen for a release.
func waiting(r admin.Record) int { return r.Waiting + max(r.Listeners, 0) }

// waitersHidden reports whether r may have waiters that the store does not show.
func waitersHidden(r admin.Record) bool { return r.Waiting == 0 && r.Listeners < 0 }
