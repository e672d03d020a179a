package locktest

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
	"github.com/holdfast-go/holdfast/internal/must"
)

// One of ten readers is killed. The writer that waits gets in when its lease is
// over, or later when the others are done, and those notice nothing.
func TestKilledReader(t *testing.T) {
	await.NotShort(t, "takes long")
	const ttl = 1500 * time.Millisecond
	for name, stay := range map[string]time.Duration{"others leave before its lease ends": ttl / 3, "others stay longer": ttl * 5 / 3} {
		t.Run(name, func(t *testing.T) {
			eachAdapter(t, func(s *subject) {
				opts := &holdfast.Options{TTL: ttl}
				victim := newScenario(s, workLimit).start(holdJob, plan{Kind: worker.Reader, Name: "page", TTL: ttl})
				if _, err := victim.Until(judge.Granted, 10*time.Second); err != nil {
					s.Fatal(err)
				}
				var others []*holdfast.Lock
				for i := range 9 {
					if i%3 == 0 {
						s.warm(s.other(opts))
					}
					others = append(others, s.get(s.other(opts).RWMutex("page").Read.Lock))
				}
				type entry struct {
					lock *holdfast.Lock
					at   time.Time
				}
				writer := make(chan entry, 1)
				mutex := s.other(opts).RWMutex("page").Write
				go func() {
					lock, err := mutex.Lock(s.Context())
					if err != nil {
						s.Errorf("the writer: %v", err)
					}
					writer <- entry{lock, time.Now()}
				}()
				time.Sleep(100 * time.Millisecond) // it waits

				victim.Kill()
				killed := time.Now()
				time.Sleep(stay)
				var leaving time.Time // the last of them
				for i, k := range others {
					if err := k.Err(); err != nil {
						s.Errorf("reader %d was disturbed: %v", i, err)
					}
					leaving = time.Now()
					must.Unlock(s, k)
				}
				left := time.Now()
				w := <-writer
				if w.lock == nil {
					return
				}
				if w.at.Before(leaving) {
					s.Errorf("the writer came in %v before the last reader left", leaving.Sub(w.at))
				}
				if keys := timeouts(s.server.Admin); len(keys) != 0 {
					s.Errorf("the writer came in while a reader's lease went on: %q", keys)
				}
				limit := killed.Add(ttl + time.Second)
				if stay > ttl { // nobody but those who stayed has kept it out
					limit = left.Add(time.Second)
				}
				within(s, "the writer waited, beyond what it must,", w.at.Sub(limit), 0)
				must.Unlock(s, w.lock)
				gone(s, s.server.Admin, 0)
				s.Logf("in %v after the kill, %v after the last reader", w.at.Sub(killed), w.at.Sub(left))
			})
		})
	}
}

// timeouts returns the keys of readers' leases.
func timeouts(a redistest.Admin) []string {
	var found []string
	for _, key := range a.Keys() {
		if strings.Contains(key, ":rwlock_timeout:") {
			found = append(found, key)
		}
	}
	return found
}
