package supervise

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// A terminal of 80 columns shows all numbers: what is cut off is the holder of the lock,
// with what that program has to say.
func TestProgressShowsNumbersFirst(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	us := admin.Waiter{Client: admin.Client{Host: host, PID: os.Getpid()}}
	owner := admin.Holder{Owner: "a", Holds: 1, Remaining: 25 * time.Second, Note: "sleep@vm:3036 (INC-1 nightly) team=core"}
	p := &progress{holder: "a", sameSince: time.Now().Add(-12 * time.Second)}
	for _, test := range []struct {
		name      string
		waiters   []admin.Waiter
		listeners int
		remaining time.Duration
		want      string
	}{
		{"in the queue", []admin.Waiter{{}, {}, us}, 0, 25 * time.Second, ": held 12s+, lease ends in 25s, 2 ahead; by sleep@vm:3036 (INC-1 nightly) team=core"},
		{"next", []admin.Waiter{us}, 0, 25 * time.Second, ": held 12s+, lease ends in 25s, you are next; by sleep@vm:3036 (INC-1 nightly) team=core"},
		{"beside one", nil, 2, -1, ": held 12s+, 1 other waiting; by sleep@vm:3036 (INC-1 nightly) team=core"},
		{"without a queue", nil, 3, -1, ": held 12s+, 2 others waiting; by sleep@vm:3036 (INC-1 nightly) team=core"},
	} {
		owner.Remaining = test.remaining
		got := p.describe(admin.Record{
			Holds: []admin.Hold{{Holder: owner}}, Holders: 1, Waiters: test.waiters, Waiting: len(test.waiters), Listeners: test.listeners,
		})
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		line := output.Cut(`waiting 12s for lock "deploy/prod"`+got, 79)
		if numbers, _, _ := strings.Cut(test.want, ";"); !strings.Contains(line, numbers) {
			t.Errorf("%s: got %q on 80 columns, want %q in it", test.name, line, numbers)
		}
	}
}

// The progress line says that the store does not answer, and for how long.
func TestProgressOfASilentStore(t *testing.T) {
	p := &progress{silent: time.Now().Add(-3 * time.Second)}
	if got := p.silence(); !strings.Contains(got, "the store has not answered for 3s") {
		t.Errorf("got %q", got)
	}
}

// A try without an answer in time is not yet a store that is silent: if the next try fails for
// another reason a little later, the line has that reason.
func TestProgressOfAReasonThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), progressLimit)
		defer cancel()
		failed := func(err error) holdfast.Event {
			return holdfast.Event{Type: holdfast.EventCall, Op: holdfast.OpTry, Err: err}
		}
		late := &attempts{failed: make(chan struct{}, 1)}
		late.observe(failed(context.DeadlineExceeded))
		time.AfterFunc(200*time.Millisecond, func() { late.observe(failed(errors.New("0 of 1 replicas acknowledged"))) })
		p := &progress{session: &session{attempts: late}}
		if got := p.unanswered(ctx); got != "; the store does not grant it: 0 of 1 replicas acknowledged" {
			t.Errorf("got %q, want the reason", got)
		}
		silent := &attempts{failed: make(chan struct{}, 1)}
		silent.observe(failed(context.DeadlineExceeded))
		p = &progress{session: &session{attempts: silent}}
		if got := p.unanswered(ctx); got != "; the store has not answered for 900ms" {
			t.Errorf("got %q, want that the store does not answer", got)
		}
	})
}
