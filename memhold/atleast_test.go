package memhold

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A name that stays taken after its release is listed with its last holder, can be freed by
// force, and becomes free by itself.
func TestNamesThatStayTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		for _, forced := range []bool{false, true} {
			a, next := claim("a"), claim("b")
			a.AtLeast = 10 * time.Minute
			mustTry(t, b, a)
			time.Sleep(20 * time.Second)
			mustRelease(t, b, a)
			var gone *driver.GoneError
			if err := renew(t, b, a).Err; !errors.As(err, &gone) || gone.Reason != driver.ReasonExpired {
				t.Errorf("Renew after Release: got %v, want the claim gone, and nobody else's", err)
			}
			records, err := b.Get(t.Context(), "job")
			if err != nil || len(records[0].Holds) != 1 {
				t.Fatalf("got %+v and error %v, want one hold", records, err)
			}
			h := records[0].Holds[0]
			if h.Owner != "a.kept" || h.Remaining != 10*time.Minute {
				t.Errorf("got %q with %v left, want a.kept with 10m", h.Owner, h.Remaining)
			}
			if forced {
				err = b.ForceUnlock(t.Context(), "job", h.Holder, "now")
			} else {
				time.Sleep(h.Remaining)
			}
			if err != nil {
				t.Errorf("ForceUnlock: %v", err)
			}
			mustTry(t, b, next)
			mustRelease(t, b, next)
		}
	})
}
