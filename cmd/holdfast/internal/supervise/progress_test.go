package supervise

import (
	"os"
	"strings"
	"testing"
	"time"

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
