package e2e_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// leastRights are the commands that every kind of lock needs.
const leastRights = "+eval +evalsha +script|load +subscribe +unsubscribe +publish +info +hello +ping +client " +
	"+exists +del +pexpire +pttl +get +set +hget +hset +hdel +hexists +hlen +hkeys +hgetall +time"

// limited connects as a user who has these rights and no others.
func limited(t *testing.T, server *redistest.Server, rights string) *redishold.Backend {
	t.Helper()
	args := append([]string{"ACL", "SETUSER", "limited", "reset", "resetchannels", "on", ">secret"}, strings.Fields(rights)...)
	if err, failed := server.Do(args...).(error); failed {
		t.Fatal(err)
	}
	return redishold.New(connect(t, server.Addr(), "limited", "secret"), nil)
}

// wantRefused fails unless err says that the server refused before anything was
// done, with its words and the rights that are missing.
func wantRefused(t *testing.T, err error, rights []string) {
	t.Helper()
	var reply *redishold.ReplyError
	if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || !errors.As(err, &reply) {
		t.Fatalf("got error %v, want ErrRefused and ErrNotExecuted with the server's words", err)
	}
	for _, right := range rights {
		if !strings.Contains(err.Error(), right) {
			t.Errorf("got error %q, want it to name %q", err, right)
		}
	}
}

// wantNothingLeft fails if a probe left keys.
func wantNothingLeft(t *testing.T, server *redistest.Server) {
	t.Helper()
	if keys := server.Bind(t).Keys(); len(keys) != 0 {
		t.Errorf("the probe left %q", keys)
	}
}

// takeTurns lets one owner have the lock after the other, who waits.
func takeTurns(t *testing.T, b *redishold.Backend, first, second driver.Claim) {
	t.Helper()
	mustTry(t, b, first)
	last := mustTry(t, b, second)
	w := b.Waiter(second)
	defer w.Close()
	if _, err := w.Wait(bounded(t), last); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	if err := b.Release(bounded(t), first); err != nil {
		t.Fatalf("Release: %v", err)
	}
	if o := mustTry(t, b, second); !o.Granted {
		t.Fatalf("got %+v, want a grant", o)
	}
}
