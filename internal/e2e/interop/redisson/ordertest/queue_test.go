package ordertest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// queue looks at the queue of a fair lock.
type queue struct {
	t     *testing.T
	admin redistest.Admin
	name  string
}

func queueOf(t *testing.T, b *redisson.Bench) *queue { return &queue{t, b.Admin(), b.Name} }

// The keys of the queue, of the deadlines, and of Holdfast's living.
func (q *queue) list() string      { return "redisson_lock_queue:{" + q.name + "}" }
func (q *queue) deadlines() string { return "redisson_lock_timeout:{" + q.name + "}" }
func (q *queue) alive() string     { return "holdfast:fair:{" + q.name + "}" }

// channel is that of a waiter; "" for what all begin with.
func (q *queue) channel(owner string) string {
	return "redisson_lock__channel:{" + q.name + "}:" + owner
}

// owners returns the waiters, the next one first.
func (q *queue) owners() []string { return q.admin.Strings("LRANGE", q.list(), "0", "-1") }

// joined waits until n wait, each listening on its channel, and returns
// the last.
func (q *queue) joined(n int) string {
	q.t.Helper()
	var owners []string
	redisson.Await(q.t, strconv.Itoa(n)+" waiters that listen", func() bool {
		owners = q.owners()
		if len(owners) != n {
			return false
		}
		for i := range owners {
			if !q.listens(owners[:i], owners[i]) {
				return false
			}
		}
		return true
	})
	return owners[n-1]
}

// listens reports whether owner listens where those may tell it who have the lock
// before it: Redisson on a channel of its own, Holdfast on that of its client.
func (q *queue) listens(before []string, owner string) bool {
	own := redisson.Listeners(q.admin, q.channel(owner)) == 1
	if !q.isOurs(owner) {
		return own
	}
	if redisson.Listeners(q.admin, q.channel(clientOf(owner))) != 1 {
		return false
	}
	holder := q.admin.Strings("HKEYS", q.name)
	near := len(holder) == 1 && q.admin.Int("EXISTS", "holdfast:client:"+clientOf(holder[0])) == 1
	return own || near && !slices.ContainsFunc(before, func(o string) bool { return !q.isOurs(o) })
}

// isOurs reports whether a waiter is Holdfast's.
func (q *queue) isOurs(owner string) bool {
	return slices.Contains(q.admin.Strings("ZRANGE", q.alive(), "0", "-1"), owner)
}

// clientOf is the first half of an owner.
func clientOf(owner string) string {
	uuid, _, _ := strings.Cut(owner, ":")
	return uuid
}

// want fails the test unless these wait, in that order, each with a deadline.
func (q *queue) want(owners ...string) {
	q.t.Helper()
	if got := q.owners(); !slices.Equal(got, owners) {
		q.t.Fatalf("queue: got %q, want %q", got, owners)
	}
	known := q.admin.Strings("ZRANGE", q.deadlines(), "0", "-1")
	slices.Sort(known)
	owners = slices.Sorted(slices.Values(owners))
	if !slices.Equal(known, owners) {
		q.t.Fatalf("with a deadline: got %q, want %q", known, owners)
	}
}

// deadline returns until when a waiter counts for Redisson.
func (q *queue) deadline(owner string) time.Time {
	q.t.Helper()
	return q.score(q.deadlines(), owner)
}

func (q *queue) score(key, owner string) time.Time {
	q.t.Helper()
	ms, err := strconv.ParseInt(q.admin.String("ZSCORE", key, owner), 10, 64)
	if err != nil {
		q.t.Fatalf("ZSCORE %s %s: %v", key, owner, err)
	}
	return time.UnixMilli(ms)
}

// left returns how far in the future a waiter's deadline is, by the server's clock.
func (q *queue) left(owner string) time.Duration {
	q.t.Helper()
	return q.deadline(owner).Sub(q.now())
}

func (q *queue) now() time.Time {
	q.t.Helper()
	clock := q.admin.Strings("TIME")
	seconds, _ := strconv.ParseInt(clock[0], 10, 64)
	micros, _ := strconv.ParseInt(clock[1], 10, 64)
	return time.Unix(seconds, micros*1000)
}

// polled waits until Holdfast's waiter has just asked. It does not ask again
// within WakeLimit, so that what it learns by then was notified by a message.
func (q *queue) polled(owner string) {
	q.t.Helper()
	before := q.score(q.alive(), owner)
	redisson.Await(q.t, owner+" asks again", func() bool { return q.score(q.alive(), owner).After(before) })
}
