package ordered_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/driver"
)

// A holder that releases while a renewal finds out why the entry is missing, or before that
// renewal has returned, gets the reason, too.
func TestReleaseBesideARenewalLearnsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		held := ps[0].claim()
		ps[0].granted(held, true)
		if err := ps[1].ForceUnlock(t.Context(), "job", ps[1].record("job").Holds[0].Holder, "stuck"); err != nil {
			t.Fatal(err)
		}
		asked, goOn := make(chan struct{}), make(chan struct{})
		m.spoil(func(_ context.Context, call string) error {
			if call == "reason" {
				close(asked)
				<-goOn
			}
			return nil
		}, nil)
		renewed := make(chan driver.Renewal)
		go func() { renewed <- ps[0].renewed(held, driver.ErrGone) }()
		<-asked
		m.spoil(nil, nil)
		forced := func(err error) bool {
			var gone *driver.GoneError
			return errors.As(err, &gone) && gone.Reason == driver.ReasonForced && gone.Detail == "ended by force: stuck"
		}
		if err := ps[0].Release(t.Context(), held); !forced(err) {
			t.Errorf("Release: got error %v, want that the hold was forced, and why", err)
		}
		close(goOn)
		if answer := <-renewed; !forced(answer.Err) {
			t.Errorf("Renew: got error %v, want that the hold was forced, and why", answer.Err)
		}
		if err := ps[0].Release(t.Context(), held); !forced(err) {
			t.Errorf("Release after the renewal: got error %v, want that the hold was forced, and why", err)
		}
	})
}
