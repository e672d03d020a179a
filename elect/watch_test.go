package elect_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// disturbed is a source that may not answer.
type disturbed struct {
	admin.Source

	mu  sync.Mutex
	get func(ctx context.Context) error // nil: it answers
}

func (d *disturbed) disturb(get func(ctx context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.get = get
}

func (d *disturbed) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	d.mu.Lock()
	get := d.get
	d.mu.Unlock()
	if get != nil {
		if err := get(ctx); err != nil {
			return nil, err
		}
	}
	return d.Source.Get(ctx, names...)
}

// A follower gets each leader, and the end of each term, within a second. It goes on after errors
// of the store.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		locker := func(note string) *holdfast.Locker {
			return holdfast.New(store, &holdfast.Options{TTL: time.Hour, Note: note})
		}
		source, ok := any(store).(admin.Source)
		if !ok {
			t.Fatal("the store is no source")
		}
		seen := &disturbed{Source: source}
		ctx, cancel := context.WithCancel(t.Context())
		type answer struct {
			leader elect.Leader
			err    error
		}
		answers := make(chan answer)
		go func() {
			defer close(answers)
			for leader, err := range elect.Watch(ctx, admin.From(seen), "leader") {
				answers <- answer{leader, err}
			}
		}()
		want := func(note string, token uint64, failed error) {
			t.Helper()
			begun := time.Now()
			got := <-answers
			for failed == nil && errors.Is(got.err, context.DeadlineExceeded) { // of a question before
				begun, got = time.Now(), <-answers
			}
			if got.leader.Note != note || got.leader.Token != token || !errors.Is(got.err, failed) {
				t.Errorf("got %+v, want the leader %q with token %d and the error %v", got, note, token, failed)
			}
			limit := time.Second
			if failed != nil {
				limit = 6 * time.Second
			}
			if took := time.Since(begun); took > limit {
				t.Errorf("the follower got the leader %q and the error %v after %v", note, failed, took)
			}
		}
		want("", 0, nil)
		first := must.Lock(t, locker("a"), "leader")
		want("a", first.Token(), nil)
		time.Sleep(time.Minute) // nothing changes
		must.Unlock(t, first)
		want("", 0, nil)
		second := must.Lock(t, locker("b"), "leader")
		want("b", second.Token(), nil)
		refused := errors.New("no rights")
		seen.disturb(func(context.Context) error { return refused })
		want("b", second.Token(), refused)
		want("b", second.Token(), refused)
		seen.disturb(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		want("b", second.Token(), context.DeadlineExceeded)
		seen.disturb(nil)
		must.Unlock(t, second)
		third := must.Lock(t, locker("b"), "leader") // within a second: there was no leader in between
		want("b", third.Token(), nil)
		must.Unlock(t, third)
		cancel()
		for range answers { //nolint:revive // until the iterator has ended
		}
	})
}
