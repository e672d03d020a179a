package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// The TTL and the margin of a Locker without Options.
const usualTTL, usualMargin = 30 * time.Second, 3 * time.Second

// underLock has the lines of docs/concepts.md: see TestConceptsOfThePage in
// internal/e2e/locktest.
func underLock(ctx context.Context, locker *holdfast.Locker, work func(context.Context, uint64) error) error {
	lock, err := locker.Lock(ctx, "stock:42") // waits for the lock until ctx ends
	if err != nil {
		return err // no lock, so no work
	}
	defer lock.Unlock()
	return work(lock.Context(ctx), lock.Token()) // this context ends when the lock is lost
}

// TestTimeline follows the steps of docs/concepts.md: grant, two renewals, a store that stops
// answering, loss, next holder, late write.
func TestTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, start := memhold.New(), time.Now()
		conn := store.Connect()
		var all []time.Duration // when a renewal succeeded
		mine := holdfast.New(conn, &holdfast.Options{Observe: func(_ context.Context, e holdfast.Event) {
			if e.Type == holdfast.EventRenew && e.Err == nil {
				if all = append(all, time.Since(start)); len(all) == 2 {
					conn.Cut()
				}
			}
		}})
		var data fence.Guard
		write := func(token uint64) error { return data.Do("stock:42", token, func() error { return nil }) }
		var lost, granted time.Duration

		err := underLock(t.Context(), mine, func(ctx context.Context, token uint64) error {
			next := make(chan *holdfast.Lock, 1)
			go func() { // process B reaches the store
				lock, err := holdfast.New(store, nil).Lock(t.Context(), "stock:42")
				if err != nil {
					t.Error(err)
				}
				next <- lock
			}()
			<-ctx.Done()
			lost = time.Since(start)
			lock := <-next
			granted = time.Since(start)
			if lock.Token() <= token {
				t.Errorf("the next holder has token %d after %d", lock.Token(), token)
			}
			if err := write(lock.Token()); err != nil {
				t.Errorf("write of the next holder: %v", err)
			}
			if err := write(token); !errors.Is(err, fence.ErrStale) {
				t.Errorf("late write: got %v, want ErrStale", err)
			}
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
			return context.Cause(ctx)
		})

		var loss *holdfast.LostError
		if !errors.As(err, &loss) || loss.Reason != driver.ReasonUnreachable {
			t.Errorf("got %v, want a loss: %s", err, driver.ReasonUnreachable)
		}
		conn.Restore()
		must.Drain(t, mine)
		if len(all) != 2 {
			t.Fatalf("%d renewals succeeded, want 2", len(all))
		}
		between(t, "the first renewal", all[0], usualTTL/9-usualTTL/60, usualTTL/3)
		between(t, "the second renewal after the first", all[1]-all[0], usualTTL/3-usualTTL/60, usualTTL/3)
		between(t, "the loss after the last renewal", lost-all[1], usualTTL-usualMargin, usualTTL-usualMargin)
		between(t, "the next grant after the last renewal", granted-all[1], usualTTL, usualTTL+100*time.Millisecond)
	})
}

// The picture and the steps have the times that TestTimeline finds, for renewals at 10 s and
// 20 s.
func TestTimelineIsDrawn(t *testing.T) {
	last := 2 * usualTTL / 3
	for name, texts := range map[string][]string{
		"docs/images/timeline.zh.svg": {fmt.Sprintf(">%.0f 秒</text>", (last + usualTTL - usualMargin).Seconds()), fmt.Sprintf(">%.0f 秒</text>", (last + usualTTL).Seconds())},
		"docs/images/timeline.svg":    {fmt.Sprintf(">%.0f s</text>", (last + usualTTL - usualMargin).Seconds()), fmt.Sprintf(">%.0f s</text>", (last + usualTTL).Seconds())},
		"docs/concepts.md": {
			fmt.Sprintf("grants it for %.0f s", usualTTL.Seconds()),
			fmt.Sprintf("About every %.0f s", (usualTTL / 3).Seconds()),
			fmt.Sprintf("At %.0f s, A counts the lock as lost", (last + usualTTL - usualMargin).Seconds()),
			fmt.Sprintf("has %.0f s to stop", usualMargin.Seconds()),
			fmt.Sprintf("At %.0f s, the lease ends in the store", (last + usualTTL).Seconds()),
		},
	} {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if !strings.Contains(string(file), text) {
				t.Errorf("%s does not have %q", name, text)
			}
		}
	}
}
