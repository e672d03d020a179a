package advisory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/advisory"
)

// session is a connection that a test ends.
type session struct {
	broken  chan error
	release error // what Release answers
	asked   func()
	closed  int
}

func (s *session) Watch(ctx context.Context) error {
	select {
	case err := <-s.broken:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (s *session) Release(context.Context) error {
	if s.asked != nil {
		s.asked()
	}
	return s.release
}

func (s *session) Close() { s.closed++ }

func TestUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{}
		h := advisory.Start("job", s)
		ctx := h.Context(t.Context())
		s.asked = func() {
			if ctx.Err() == nil {
				t.Error("the server was asked to release while the context had not ended")
			}
		}
		if h.Err() != nil || ctx.Err() != nil {
			t.Fatalf("held: got error %v, context %v", h.Err(), ctx.Err())
		}
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := context.Cause(ctx); !errors.Is(err, holdfast.ErrUnlocked) {
			t.Errorf("context after Unlock: got %v, want ErrUnlocked", err)
		}
		if err := h.Unlock(); !errors.Is(err, holdfast.ErrUnlocked) || s.closed != 1 {
			t.Errorf("second Unlock: got %v after %d closings, want ErrUnlocked after 1", err, s.closed)
		}
		if err := h.Context(t.Context()).Err(); err == nil {
			t.Error("a context made after Unlock has not ended")
		}
	})
}

func TestLoss(t *testing.T) {
	reset := errors.New("connection reset")
	for want, cause := range map[driver.Reason]error{
		driver.ReasonClosed:      reset,
		driver.ReasonUnreachable: context.DeadlineExceeded,
		driver.ReasonNotOwner:    &driver.GoneError{Reason: driver.ReasonNotOwner},
	} {
		t.Run(string(want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &session{broken: make(chan error)}
				h := advisory.Start("job", s)
				ctx := h.Context(t.Context())
				s.broken <- cause
				<-ctx.Done()
				for what, err := range map[string]error{"Err": h.Err(), "context": context.Cause(ctx), "Unlock": h.Unlock()} {
					var lost *holdfast.LostError
					if !errors.As(err, &lost) || lost.Reason != want || !errors.Is(err, cause) {
						t.Errorf("%s: got %v, want a LostError for %s", what, err, want)
					}
				}
				if s.closed != 1 {
					t.Errorf("closed %d times, want once", s.closed)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				s := &session{release: cause}
				if err := advisory.Start("job", s).Unlock(); !errors.Is(err, holdfast.ErrLost) || s.closed != 1 {
					t.Errorf("Unlock that finds it lost: got %v and %d closings, want ErrLost and 1", err, s.closed)
				}
			})
		})
	}
}

// A context of the caller that ends leaves the hold alone, and the hold forgets it.
func TestContextOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := advisory.Start("job", &session{})
		mine := errors.New("enough")
		parent, cancel := context.WithCancelCause(t.Context())
		ctx := h.Context(parent)
		cancel(mine)
		if context.Cause(ctx) != mine || h.Err() != nil {
			t.Errorf("got cause %v and hold %v, want the caller's and nil", context.Cause(ctx), h.Err())
		}
		if err := h.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// The values are those that the programs themselves use.
func TestNumbers(t *testing.T) {
	for names, want := range map[[3]string]uint32{
		{"public", "schema_migrations", "app"}:  1787120056,
		{"public", "schema_migrations", "/app"}: 1726534663,
	} {
		if got := advisory.Migrate(names[:]...); got != want {
			t.Errorf("Migrate(%q): got %d, want %d", names, got, want)
		}
	}
	if got := advisory.Rails("app"); got != 6939591962871035475 {
		t.Errorf("Rails: got %d", got)
	}
	for text, want := range map[string]int32{
		"": 0, "`app`.`flyway_schema_history`": -320650056,
		"ä𝄞": (0xe4*31+0xd834)*31 + 0xdd1e, // its units in UTF-16
	} {
		if got := advisory.JavaHash(text); got != want {
			t.Errorf("JavaHash(%q): got %d, want %d", text, got, want)
		}
	}
}

// A lock that is granted as the context of the wait ends is released.
func TestTakenTooLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	s := &session{asked: func() { asked++ }}
	h, err := advisory.Take(ctx, "job", s, func() error {
		cancel()
		return nil
	})
	if h != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, want no hold and %v", h, err, context.Canceled)
	}
	if asked != 1 || s.closed != 1 {
		t.Errorf("got %d releases and %d closings, want one of each", asked, s.closed)
	}
}

// What the server answers to a wait that was given up is not the reason for its end.
func TestTakeFails(t *testing.T) {
	reset := errors.New("connection reset")
	for _, ended := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		s, want := &session{}, reset
		_, err := advisory.Take(ctx, "job", s, func() error {
			if ended {
				cancel()
				want = context.Canceled
			}
			return reset
		})
		cancel()
		if !errors.Is(err, want) || s.closed != 1 {
			t.Errorf("context ended %v: got %v and %d closings, want %v and 1", ended, err, s.closed, want)
		}
	}
}
