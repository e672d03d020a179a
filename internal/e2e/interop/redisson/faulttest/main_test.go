// Package faulttest is Redisson beside Holdfast in a cluster, behind sentinels,
// and while servers and connections fail.
package faulttest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
)

func TestMain(m *testing.M) {
	redisson.Prepare(2)
	goleak.VerifyTestMain(m, dial.Sleepers()...)
}

// lockOf returns the command for a thread about an RLock. A lease of 0 is the
// watchdog's.
func lockOf(op, name string, lease time.Duration) peer.Command {
	return peer.Command{Op: op, Kind: "lock", Name: name, Lease: lease.Milliseconds()}
}

// take takes a lock.
func take(t *testing.T, l *holdfast.Locker, name string, opts ...holdfast.Option) *holdfast.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lock, err := l.Lock(ctx, name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// waitFor has a goroutine wait for a lock.
func waitFor(t *testing.T, l *holdfast.Locker, name string) *redisson.Pending[*holdfast.Lock] {
	return redisson.Later(t, "Go, Lock "+name, func(ctx context.Context) (*holdfast.Lock, error) { return l.Lock(ctx, name) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func channel(name string) string { return "redisson_lock__channel:{" + name + "}" }

// untilReached repeats what Java throws while it has no connection, or does not
// know which node it is that it needs now.
func untilReached(t *testing.T, j redisson.Thread, c peer.Command) peer.Reply {
	t.Helper()
	var r peer.Reply
	redisson.Await(t, "Java reaches the server again", func() bool {
		r = j.Try(c)
		if r.Err() != nil {
			t.Logf("Java, %s: %v", c.Op, r.Err())
		}
		return r.Err() == nil || r.Class == redisson.NotHeld
	})
	return r
}

// tried is untilReached for what must succeed then.
func tried(t *testing.T, j redisson.Thread, c peer.Command) peer.Reply {
	t.Helper()
	r := untilReached(t, j, c)
	if err := r.Err(); err != nil {
		t.Errorf("Java, %s %q: %v", c.Op, c.Name, err)
	}
	return r
}
