package demo

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/driver"
)

// lateAnswer is a store whose first Try is answered when a test wants it.
type lateAnswer struct {
	driver.Backend
	first chan driver.Outcome
}

func (h *lateAnswer) Try(context.Context, driver.Claim) (driver.Outcome, error) {
	if first := h.first; first != nil {
		h.first = nil
		return <-first, nil
	}
	return driver.Outcome{Granted: true}, nil
}

// The vote of a server is what it answered to the last Try, also if it answers an earlier Try
// later.
func TestVoteIsOfTheLastTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan driver.Outcome)
		v := &voter{Backend: &lateAnswer{first: late}, server: &server{}}
		go func() { _, _ = v.Try(t.Context(), driver.Claim{}) }()
		synctest.Wait()
		_, _ = v.Try(t.Context(), driver.Claim{})
		late <- driver.Outcome{}
		synctest.Wait()
		if got := v.lastVote(); got != "granted" {
			t.Errorf("got %q, want the answer to the last Try", got)
		}
	})
}
