package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
)

// While other clients wait, the goroutines of a process take the lock one after the other for
// 5 ms: the releases are quiet, and each try follows at once. Then the other clients go first.
func TestBurst(t *testing.T) {
	tests := []struct {
		name   string
		others int // how many other clients wait
		hold   time.Duration
		opts   []holdfast.Option
		want   []string
	}{
		{"short holds", 2, time.Millisecond, nil, []string{"quiet", "began", "try", "finished"}},
		{"nobody else waits", 0, time.Millisecond, nil, []string{"began", "try", "finished"}},
		{"a long hold", 2, burst, nil, []string{"began", "finished", "try"}},
		{"the name stays taken", 2, time.Millisecond, []holdfast.Option{holdfast.AtLeast(2 * time.Millisecond)}, []string{"began", "finished", "try"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTwoSteps(tt.others)
				l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
				first := must.Lock(t, l, "job")
				got := make(chan *holdfast.Lock)
				for range 2 {
					go func() { got <- must.Lock(t, l, "job", tt.opts...) }()
					synctest.Wait()
				}
				time.Sleep(burst)
				store.answers(tt.others, nil, time.Millisecond)
				must.Unlock(t, first) // others went first, and the second lock begins a burst
				second := <-got
				time.Sleep(tt.hold)
				store.since()
				must.Unlock(t, second)
				third := <-got
				synctest.Wait()
				if calls, _ := store.since(); !slices.Equal(calls, tt.want) {
					t.Errorf("got %v, want %v", calls, tt.want)
				}
				must.Unlock(t, third)
				if calls, _ := store.since(); slices.Contains(calls, "quiet") {
					t.Errorf("with nobody behind: got %v, want a release that notifies", calls)
				}
			})
		})
	}
}

// With hand-offs a release is never quiet, also if the lease could not be passed on because nobody
// waited in the process when the lock was asked for.
func TestHandoffsBeginNoBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTwoSteps(2)
		l := holdfast.New(store, nil)
		store.answers(2, nil, time.Millisecond)
		must.Unlock(t, must.Lock(t, l, "job")) // others went first, so the next lock could begin a burst
		second, got := must.Lock(t, l, "job"), make(chan *holdfast.Lock)
		go func() { got <- must.Lock(t, l, "job") }()
		synctest.Wait()
		store.since()
		must.Unlock(t, second)
		third := <-got
		if calls, _ := store.since(); slices.Contains(calls, "quiet") {
			t.Errorf("got %v, want a release that notifies", calls)
		}
		must.Unlock(t, third)
	})
}

// If no goroutine of the process takes the lock after a quiet release, the other clients are
// notified.
func TestWakeAfterAQuietRelease(t *testing.T) {
	tests := []struct {
		name string
		next func(s *twoSteps, giveUp context.CancelFunc) // what happens to the next try
		want bool
	}{
		{"granted", func(*twoSteps, context.CancelFunc) {}, false},
		{"gives up before its try", func(s *twoSteps, giveUp context.CancelFunc) {
			s.set(func() { s.begin = giveUp })
		}, true},
		{"gives up after a try without an answer", func(s *twoSteps, giveUp context.CancelFunc) {
			s.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) {
				giveUp()
				return driver.Outcome{}, errors.New("connection reset")
			}
		}, true},
		{"finds that another client was faster", func(s *twoSteps, giveUp context.CancelFunc) {
			s.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) {
				time.Sleep(time.Millisecond) // until the release has its answer: before that, this client could be the holder itself
				giveUp()
				return driver.Outcome{Holder: "another client"}, nil
			}
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTwoSteps(2)
				l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
				first := must.Lock(t, l, "job")
				got := standing(t, l, 1)
				ctx, giveUp := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					if last, err := l.Lock(ctx, "job"); err == nil {
						must.Unlock(t, last)
					}
				}()
				synctest.Wait()
				must.Unlock(t, first)
				second := <-got
				synctest.Wait()
				tt.next(store, giveUp)
				store.since()
				must.Unlock(t, second)
				<-ended
				must.Drain(t, l)
				calls, _ := store.since()
				if !slices.Contains(calls, "quiet") || slices.Contains(calls, "wake") != tt.want {
					t.Errorf("got %v, want a quiet release, and to wake the others: %v", calls, tt.want)
				}
				giveUp()
			})
		})
	}
}
