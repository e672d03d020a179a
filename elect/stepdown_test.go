package elect_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// A leader that is asked to step down keeps the lock until its function has returned, and another
// process leads then, without a gap. After the pause the process is a candidate again.
func TestStepDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		ctx, cancel := context.WithCancel(t.Context())
		const toStop, pause = 3 * time.Second, 20 * time.Second
		type event struct {
			who  string
			what string
		}
		events := make(chan event, 100)
		var elections []*elect.Election
		done := make(chan error)
		for _, who := range []string{"a", "b"} {
			e := elect.New(holdfast.New(store, &holdfast.Options{TTL: ttl}).Mutex("leader"))
			elections = append(elections, e)
			go func() {
				done <- e.Run(ctx, func(term context.Context, _ *holdfast.Lock) error {
					events <- event{who, "leads"}
					<-term.Done()
					if cause := context.Cause(term); ctx.Err() == nil && !errors.Is(cause, elect.ErrSteppedDown) {
						t.Errorf("%s: the cause of the end of the term is %v, want ErrSteppedDown", who, cause)
					}
					time.Sleep(toStop)
					if err := e.Leading(); err != nil {
						t.Errorf("%s: Leading returns %v before the function has returned", who, err)
					}
					events <- event{who, "stops"}
					return errors.New("any error")
				})
			}()
			synctest.Wait() // a leads first
		}
		if first := <-events; first != (event{"a", "leads"}) {
			t.Fatalf("got %v", first)
		}
		if err := elections[1].StepDown(pause); !errors.Is(err, elect.ErrNotLeading) {
			t.Errorf("StepDown of a process that does not lead: got %v, want ErrNotLeading", err)
		}
		for range 2 { // the second call changes nothing
			if err := elections[0].StepDown(pause); err != nil {
				t.Fatal(err)
			}
		}
		asked := time.Now()
		for _, want := range []event{{"a", "stops"}, {"b", "leads"}} {
			if got := <-events; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		if took := time.Since(asked); took != toStop {
			t.Errorf("the next leader after %v, want %v", took, toStop)
		}
		// a is no candidate before its pause is over.
		if err := elections[1].StepDown(time.Hour); err != nil {
			t.Fatal(err)
		}
		for _, want := range []event{{"b", "stops"}, {"a", "leads"}} {
			if got := <-events; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		if took := time.Since(asked); took != toStop+pause {
			t.Errorf("a leads again after %v, want %v", took, toStop+pause)
		}
		cancel()
		if err := errors.Join(<-done, <-done); err == nil {
			t.Error("Run returned no error at the end of ctx")
		}
	})
}

// The pause ends with ctx.
func TestStepDownAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := elect.New(holdfast.New(memhold.New(), nil).Mutex("leader"))
		begun := time.Now()
		err := e.Run(ctx, func(term context.Context, _ *holdfast.Lock) error {
			if err := e.StepDown(time.Hour); err != nil {
				t.Error(err)
			}
			<-term.Done()
			time.AfterFunc(time.Second, cancel)
			return nil
		})
		if !errors.Is(err, context.Canceled) || time.Since(begun) != time.Second {
			t.Errorf("got %v after %v, want the error of ctx after a second", err, time.Since(begun))
		}
	})
}

// The read side of a read-write lock has several holders, so that no leader would be the only one.
func TestReadSideIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		rw := holdfast.New(store, nil).RWMutex("leader")
		store.Change(func() {
			store.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) {
				return driver.Outcome{}, errors.New("the store was asked")
			}
		})
		err := elect.New(rw.Read).Run(t.Context(), func(context.Context, *holdfast.Lock) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "use a Mutex") {
			t.Errorf("got %v, want an error that says to use a Mutex", err)
		}
		store.Change(func() { store.OnTry = nil })
		if err := elect.New(rw.Write).Run(t.Context(), func(context.Context, *holdfast.Lock) error { return nil }); err != nil {
			t.Errorf("the write side: %v", err)
		}
		must.Drain(t, holdfast.New(store, nil))
	})
}
