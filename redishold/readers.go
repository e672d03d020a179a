package redishold

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// A script only uses keys that its caller names, because some servers refuse any other key. The
// names of the timeout keys of readers are only known after a script has read the lock. So the
// script replies with the readers, and the caller makes a second call, with their timeout keys.

// codeReaders is the first element of {3, readers}, the reply of rw_write_acquire.lua to a call
// that has not named the timeout keys of the readers.
const codeReaders = 3

// beside returns the second call of t, if t is the try of a writer whose first call, with the
// given result, has found readers. Otherwise the result `ok` is false.
func (b *Backend) beside(t *try, result Result) (call Call, ok bool) {
	if !t.claim.ReadWrite || b.forms.of(t.claim) != b.forms.readWrite {
		return Call{}, false
	}
	readers := readersIn(result.Value)
	if readers == nil {
		return Call{}, false
	}
	return Call(b.forms.readWrite.AcquireBeside(t.keys, t.claim, readers)), true
}

// besideAll makes the second calls of those tries that need one, in one round trip, and replaces
// their results. The result results[i] is that of the first call of tries[i].
func (b *Backend) besideAll(ctx context.Context, tries []try, results []Result) {
	var calls []Call
	var at []int
	for i := range tries {
		if call, ok := b.beside(&tries[i], results[i]); ok {
			calls, at = append(calls, call), append(at, i)
		}
	}
	if len(calls) > 0 {
		wire.Scatter(results, at, b.doReplicated(ctx, tries[0].info, calls))
	}
}

// readersIn returns the readers in the reply {3, readers}: the field and the hold count of each.
// For any other reply it returns nil.
func readersIn(value any) []string {
	list, _ := value.([]any)
	if len(list) != 2 || list[0] != any(int64(codeReaders)) {
		return nil
	}
	readers, _ := wire.Texts(list[1])
	return readers
}

const (
	// trimsPerCall is the maximal number of locks that one round trip trims.
	trimsPerCall = 100
	trimTimeout  = time.Second
)

// trimming is a lock whose release has left readers.
type trimming struct {
	keys    layout.Keys
	readers []string // the field and the hold count of each reader
	publish []string
}

// trimmer shortens the TTL of locks after releases that left readers, to the longest lease of
// these readers. It does so in the background, in one goroutine, because a release must not wait
// for a second round trip. If a trim fails, the lock ends with its old TTL, unless a later
// release trims it. That is never too early.
type trimmer struct {
	background background.Group

	mu      sync.Mutex
	due     map[string]trimming // by key of the lock: the latest release of each
	running bool
}

// trim makes the trimmer trim the given locks soon.
func (b *Backend) trim(all ...trimming) {
	if len(all) == 0 {
		return
	}
	t := &b.trimmer
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.due == nil {
		t.due = make(map[string]trimming)
	}
	for _, one := range all {
		t.due[one.keys.Lock] = one
	}
	if !t.running {
		t.running = true
		t.background.Go(func() {
			for batch := t.next(); len(batch) > 0; batch = t.next() {
				b.trimNow(batch)
			}
		})
	}
}

// next removes the next locks to trim, and returns them. If there are none, the goroutine ends.
func (t *trimmer) next() []trimming {
	t.mu.Lock()
	defer t.mu.Unlock()
	var batch []trimming
	for key, one := range t.due {
		if len(batch) == trimsPerCall {
			return batch
		}
		batch = append(batch, one)
		delete(t.due, key)
	}
	t.running = len(batch) > 0
	return batch
}

// trimNow trims locks in one round trip.
func (b *Backend) trimNow(batch []trimming) {
	ctx, cancel := context.WithTimeout(context.Background(), trimTimeout)
	defer cancel()
	calls := make([]Call, len(batch))
	for i, one := range batch {
		calls[i] = Call(b.forms.readWrite.Trim(one.keys, one.readers, one.publish))
	}
	for i, result := range b.do(ctx, calls...) {
		_, err := b.ended(calls[i].Script, result.Value)
		if result.Err != nil {
			err = result.Err
		}
		if err != nil {
			b.log.Debug("redis: shorten the TTL of a read-write lock", "name", batch[i].keys.Name, "error", err)
		}
	}
}
