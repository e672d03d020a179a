//go:build unix

package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Exhausted has the program use both connections of db, a pool of two, over which l works
// with a TTL of a second, until a lock is lost. The errors name the pool.
func Exhausted(t *testing.T, l *holdfast.Locker, db *sql.DB) {
	t.Helper()
	defer must.Drain(t, l)
	held := must.Lock(t, l, "held")
	defer func() { _ = held.Unlock() }() // when the pool has connections again
	for range 2 {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	_, err := l.TryLock(await.Context(t, 600*time.Millisecond), "other")
	await.Until(t, 5*time.Second, "the lock is lost", func() bool { return held.Err() != nil })
	for what, err := range map[string]error{"TryLock": err, "a lost lock": held.Err()} {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, want DeadlineExceeded", what, err)
			continue
		}
		for _, says := range []string{"no connection free in the pool of 2 within ", "(2 in use)"} {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: got %v, want that it says %q", what, err, says)
			}
		}
	}
}
