package redishold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

func TestServerErrors(t *testing.T) {
	const (
		notSent  = "not sent"
		refused  = "refused"
		both     = "refused and not sent"
		mismatch = "mismatch"
	)
	for _, c := range []struct{ text, want, advice string }{
		{"LOADING Redis is loading the dataset in memory", notSent, ""},
		{"READONLY You can't write against a read only replica. script: 1, on @user_script:1.", notSent, ""},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", notSent, ""},
		{"CLUSTERDOWN The cluster is down", notSent, ""},
		{"TRYAGAIN Multiple keys request during rehashing of slot", notSent, ""},
		{"BUSY Redis is busy running a script.", notSent, ""},
		{"NOREPLICAS Not enough good replicas to write.", notSent, ""},
		{"MOVED 3999 127.0.0.1:6381", notSent, ""},
		{"ERR max number of clients reached", notSent, ""},
		{"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.", notSent, ""},

		{"NOAUTH Authentication required.", both, ""},
		{"WRONGPASS invalid username-password pair or user is disabled.", both, ""},
		{"ERR SELECT is not allowed in cluster mode", both, "Valkey 9"},
		{"ERR DB index is out of range", both, "cluster-databases"},
		{"DB index is out of range", both, "cluster-databases"},
		{"CROSSSLOT Keys in request don't hash to the same slot", both, ""},
		{"NOPERM this user has no permissions to run the 'evalsha' command", both, "+evalsha"},
		{"NOPERM this user has no permissions to access one of the keys used as arguments", both, "~stock:42* ~app:holdfast:*"},
		{"NOPERM User a has no permissions to run the 'script|load' command", both, "+script|load"},

		{"ERR The user executing the script can't run this command or subcommand script: 1, on @user_script:9.", refused, "+hset"},
		{"ERR ACL failure in script: User a has no permissions to run the 'hkeys' command", refused, "+hkeys"},
		{"ERR The user executing the script can't publish to the channel mentioned in the command", refused, "&redisson_lock__channel:*"},
		{"ERR Error running script (call to f_1): @user_script:1: -NOPERM The user executing the script can't run this command or subcommand", refused, "+hset"},
		{"OOM command not allowed when used memory > 'maxmemory'. script: 1, on @user_script:1.", refused, ""},
		{"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.", refused, ""},
		{"MISCONF Redis is configured to save RDB snapshots", refused, ""},
		{"ERR unknown command 'EVALSHA'", refused, ""},
		{"ERR user_script:14: token counter x is no number below 2^53 script: 1, on @user_script:14.", refused, "delete \"count\"; new tokens come from the clock of the server"},
		{"", refused, ""},

		{"WRONGTYPE Operation against a key holding the wrong kind of value script: 1, on @user_script:1.", mismatch, ""},
		{"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: WRONGTYPE Operation against a key", mismatch, ""},
		{"Error compiling script (new function): :33: WRONGTYPE Operation against a key", mismatch, ""},
	} {
		b := New(&fakeConn{}, &Options{KeyPrefix: "app:"})
		k := layout.Keys{Name: "stock:42", Lock: "stock:42", Counter: "count", Channel: "redisson_lock__channel:{stock:42}"}
		err := b.layout.Classify(k, fmt.Errorf("client: %w", &ReplyError{Text: c.text}))
		var got []string
		for _, kind := range []struct {
			err  error
			name string
		}{{driver.ErrRefused, refused}, {driver.ErrNotExecuted, notSent}, {driver.ErrMismatch, mismatch}, {driver.ErrGone, "gone"}} {
			if errors.Is(err, kind.err) {
				got = append(got, kind.name)
			}
		}
		if strings.Join(got, " and ") != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
		var reply *ReplyError
		if !errors.As(err, &reply) || reply.Text != c.text {
			t.Errorf("%q: got %v, want the server's words within reach", c.text, reply)
		}
		if !strings.Contains(err.Error(), `"stock:42"`) || !strings.Contains(err.Error(), c.advice) {
			t.Errorf("%q: got %q, want the name and %q in it", c.text, err, c.advice)
		}
	}
}

// TestMessagesHaveNoFrame: the text that Redis 6.2 adds to the error of a script is left out.
func TestMessagesHaveNoFrame(t *testing.T) {
	b := New(&fakeConn{}, nil)
	err := b.layout.Classify(layout.Keys{Name: "x"}, &ReplyError{Text: "ERR Error running script (call to f_1): @user_script:47: @user_script: 47: -NOREPLICAS Not enough good replicas to write."})
	if want := `redis refuses "x": NOREPLICAS Not enough good replicas to write.`; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestErrorsOfTheConnectionPassThrough(t *testing.T) {
	b := New(&fakeConn{}, nil)
	for _, err := range []error{context.DeadlineExceeded, driver.ErrNotExecuted, errors.New("reset by peer")} {
		if got := b.layout.Classify(layout.Keys{Name: "x"}, err); got != err {
			t.Errorf("got %v, want %v", got, err)
		}
	}
}
