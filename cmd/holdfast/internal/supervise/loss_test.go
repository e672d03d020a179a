package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/redishold"
)

// A loss is told once: without the reason if its cause says it, and without the name of a call
// that the user did not make.
func TestTextsOfALoss(t *testing.T) {
	refused := errors.New("read tcp 127.0.0.1:45060->127.0.0.1:6379: i/o timeout")
	for _, test := range []struct {
		reason driver.Reason
		cause  error
		want   string
	}{
		{driver.ReasonForced, &driver.GoneError{Reason: driver.ReasonForced, Detail: "ended by force: test (root@vm)"}, `lock "job" lost: ended by force: test (root@vm)`},
		{driver.ReasonDeleted, &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "the key is gone from the server"}, `lock "job" lost: the key is gone from the server`},
		{driver.ReasonExpired, nil, `lock "job" lost: expired`},
		{driver.ReasonUnreachable, refused, `lock "job" lost: unreachable: no answer of 127.0.0.1:6379 in time`},
	} {
		err := lossOf(fmt.Errorf("unlock: %w", &holdfast.LostError{Name: "job", Reason: test.reason, Cause: test.cause}))
		if err.Error() != test.want || !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got %q, want %q and an ErrLost", err, test.want)
		}
	}
}

// A lock that is not renewed in time: the reason comes first, then what it means for the lock.
func TestTextsOfALateRenewal(t *testing.T) {
	for _, test := range []struct {
		renewal error
		want    string
	}{
		{nil, `lock "job" was not renewed in time and counts as lost in 3.3s`},
		{context.DeadlineExceeded, `the store does not answer: lock "job" counts as lost in 3.3s`},
		{fmt.Errorf("cannot connect to db:6379: connection refused: %w", driver.ErrNotExecuted), `the store does not answer (cannot connect to db:6379: connection refused: not executed): lock "job" counts as lost in 3.3s`},
		{&redishold.ReplyError{Text: "LOADING Redis is loading"}, `the store does not renew the lock (`},
		{fmt.Errorf("no right: %w", driver.ErrRefused), `the store does not renew the lock (no right: `},
	} {
		if got := noRenewal("job", test.renewal, 3325*time.Millisecond); !strings.HasPrefix(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// A release without an answer is told at the end, with the time until others get the lock. It is
// not told if the answer comes while the program waits for it.
func TestTextOfAReleaseWithoutAnAnswer(t *testing.T) {
	for _, test := range []struct {
		restored bool
		want     string
	}{
		{false, "holdfast: could not release \"job\": no answer from the store; others wait until its lease ends, in 24s\n"},
		{true, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := memhold.New().Connect()
			locker := holdfast.New(conn, &holdfast.Options{TTL: 30 * time.Second})
			var stderr strings.Builder
			report := output.NewReporter(output.Environment{Stdout: io.Discard, Stderr: &stderr}, false)
			s := session{Lock: &Lock{Name: "job", TTL: 30 * time.Second, Nonblock: true}, Program: Program{Report: report}}
			lock, err := s.acquire(t.Context(), locker)
			if err != nil {
				t.Fatal(err)
			}
			conn.Cut()
			if err := s.unlock(lock); err == nil {
				t.Error("the store has confirmed a release although it does not answer")
			}
			if test.restored {
				conn.Restore()
			}
			s.drain(locker)
			if stderr.String() != test.want {
				t.Errorf("got %q, want %q", stderr.String(), test.want)
			}
			conn.Restore()
			if !Drain(locker, time.Minute) {
				t.Error("the release goes on after a minute")
			}
		})
	}
}
