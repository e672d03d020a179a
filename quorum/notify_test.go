package quorum

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// notifying is a member whose Notify is a function of the test.
type notifying struct {
	*memhold.Backend
	notify func(ctx context.Context, hint func(uint64)) error
}

func (n notifying) Notify(ctx context.Context, _ string, hint func(uint64)) error {
	return n.notify(ctx, hint)
}

// mute is a member that sends no notices.
type mute struct{ driver.Backend }

// It is enough that some members send notices. After a failure a quorum listens to a member
// again. If no member can send notices, Notify returns an error.
func TestNotifyOfSomeMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		shaky := notifying{memhold.New(), func(ctx context.Context, hint func(uint64)) error {
			if calls++; calls < 3 {
				return errors.New("cut off")
			}
			hint(7)
			<-ctx.Done()
			return ctx.Err()
		}}
		panics := notifying{memhold.New(), func(context.Context, func(uint64)) error { panic("a bug") }}
		refuses := notifying{memhold.New(), func(context.Context, func(uint64)) error { return driver.ErrRefused }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		heard := make(chan uint64, 10)
		err := must(t, []driver.Backend{refuses, mute{memhold.New()}, panics, shaky, mute{memhold.New()}}, nil).
			Notify(ctx, "client", func(seq uint64) { heard <- seq })
		if !errors.Is(err, context.DeadlineExceeded) || len(heard) != 1 || <-heard != 7 {
			t.Errorf("got %v and %d notices, want one of claim 7, until the context ends", err, len(heard))
		}

		err = must(t, []driver.Backend{mute{memhold.New()}, refuses, mute{memhold.New()}}, nil).Notify(t.Context(), "client", nil)
		if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, driver.ErrRefused) {
			t.Errorf("got %v from members that never notify, want what they said", err)
		}
	})
}
