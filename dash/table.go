package dash

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
)

const mostNames = 50_000 // the most names that are kept; of a store with more, only a part is shown

// table has the known states of all names, and the state of the scan.
type table struct {
	*observe.Observer
	first chan struct{} // closed when a scan has found more names than a page shows, or is complete

	mu   sync.Mutex
	scan scan
}

// scan is the state of the scans of all names: number, began and found are those of the
// latest scan.
type scan struct {
	number  int
	began   time.Time
	found   int
	lasted  time.Duration // of the last complete scan
	ended   time.Time     // likewise
	partial error         // why the last scan was not complete
}

// ready returns a channel that is closed when there are names for a page, or a scan is
// complete.
func (t *table) ready() <-chan struct{} { return t.first }

// found counts a name that the scan found. It returns true, so that the scan polls the name.
func (t *table) found(string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.scan.found++; t.scan.found > pageRows { // a page was polled
		t.open()
	}
	return true
}

// open closes first, if it is not closed.
func (t *table) open() {
	select {
	case <-t.first:
	default:
		close(t.first)
	}
}

// waiting returns the number of waiters of r, as far as the store shows: those in the queue,
// and the clients that listen for a release.
func waiting(r admin.Record) int { return r.Waiting + max(r.Listeners, 0) }

// waitersHidden reports whether r may have waiters that the store does not show.
func waitersHidden(r admin.Record) bool { return r.Waiting == 0 && r.Listeners < 0 }

// begin records that a scan starts.
func (t *table) begin(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scan.number++
	t.scan.began, t.scan.found = now, 0
}

// end records that a scan has ended, with its error.
func (t *table) end(now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.scan.partial = err; err == nil {
		t.scan.lasted, t.scan.ended = now.Sub(t.scan.began), now
		t.open()
	}
}

func (t *table) now() scan {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.scan
}

// all returns the states of the names that want accepts, in no order, the number of all
// names, and the state of the scan. A nil want accepts all.
func (t *table) all(want func(observe.State) bool) (list []observe.State, total int, p scan) {
	for s := range t.All {
		if total++; want == nil || want(s) {
			list = append(list, s)
		}
	}
	return list, total, t.now()
}

// totals returns the numbers of names, holds and waiters.
func (t *table) totals() (names, held, waits int) {
	for s := range t.All {
		names++
		held += s.Holders
		waits += waiting(s.Record)
	}
	return names, held, waits
}

// hidden reports whether there is a name whose waiters the store does not show.
func (t *table) hidden() bool {
	for s := range t.All {
		if waitersHidden(s.Record) {
			return true
		}
	}
	return false
}

// stale returns those of names that are known, and had their last poll before the parameter since.
func (t *table) stale(names []string, since time.Time) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		s, known := t.Get(name)
		return !known || !s.Seen.Before(since)
	})
}
