package locktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

const pauseTTL = 600 * time.Millisecond

// pauseReport is what a process saw that was stopped past its lease.
type pauseReport struct {
	Token   uint64
	Cause   string // of the context's end, "" if it is not a loss
	EndedAt time.Time
	FirstAt time.Time     // the first look at Lock.Err after the pause
	FirstOK bool          // it said "held"
	Unlock  string        // the error of Unlock, "" if it is no ErrLost
	Queued  time.Duration // see judge.Queued
}

// ledger is a resource that checks fencing tokens.
const ledger = `
if tonumber(redis.call('HGET', KEYS[1], 'token') or 0) > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1])
redis.call('PEXPIRE', KEYS[1], 60000)
return 1`

// A holder that is stopped past its lease, while another takes over, learns of
// it as soon as it runs again, and can do no more harm.
func TestPausedHolder(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		write := func(token uint64) bool {
			return s.server.Int("EVAL", ledger, "1", "ledger", fmt.Sprint(token)) == 1
		}
		cmd := exec.CommandContext(s.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), workerVar+"=pause", "ADAPTER="+s.adapter, "ADDR="+s.server.Addr())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			s.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			s.Fatal(err)
		}
		lines := json.NewDecoder(out)
		var first, last pauseReport
		if err := lines.Decode(&first); err != nil {
			s.Fatal(err)
		}
		if !write(first.Token) {
			s.Fatal("the ledger refused the first holder")
		}

		_ = cmd.Process.Signal(syscall.SIGSTOP)
		next := must.Lock(s, s.other(nil), "paused") // as soon as the lease is over
		if !write(next.Token()) {
			s.Error("the ledger refused the second holder")
		}
		before := s.server.Map("HGETALL", "paused")
		queued := judge.Queued(cmd.Process.Pid)
		resumed := time.Now()
		_ = cmd.Process.Signal(syscall.SIGCONT)
		if err := lines.Decode(&last); err != nil {
			s.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			s.Fatal(err)
		}
		if last.Cause == "" {
			s.Error("the context did not end with ErrLost")
		}
		waited := max(0, last.Queued-queued) // for a processor
		within(s, "told after the pause", last.EndedAt.Sub(resumed)-waited, 10*time.Millisecond)
		if last.FirstOK {
			s.Error("the first look after the pause said that the lock is held")
		}
		if last.Unlock == "" {
			s.Error("Unlock did not return ErrLost")
		}
		after := s.server.Map("HGETALL", "paused")
		if fmt.Sprint(before) != fmt.Sprint(after) || next.Err() != nil {
			s.Errorf("the new holder was disturbed: %v, then %v; %v", before, after, next.Err())
		}
		if write(first.Token) {
			s.Error("the ledger accepted the old token")
		}
		must.Unlock(s, next)
		s.Logf("told %v after the pause: %s", last.EndedAt.Sub(resumed), last.Cause)
	})
}

func workUntilPaused() error {
	conn, shut, err := dial.Server(os.Getenv("ADAPTER"), os.Getenv("ADDR"), "", "")
	if err != nil {
		return err
	}
	defer shut()
	locker := holdfast.New(redishold.New(conn, nil), &holdfast.Options{TTL: pauseTTL})
	lock, err := locker.Lock(context.Background(), "paused")
	if err != nil {
		return err
	}
	last := time.Now()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(pauseReport{Token: lock.Token()}); err != nil {
		return err
	}

	ctx := lock.Context(context.Background())
	ended := make(chan time.Time, 1)
	go func() {
		<-ctx.Done()
		ended <- time.Now()
	}()
	r := pauseReport{}
	for r.FirstAt.IsZero() {
		now := time.Now()
		if now.Sub(last) > pauseTTL/2 { // it was the pause
			r.FirstOK = lock.Err() == nil
			r.FirstAt = now
		}
		last = now
		time.Sleep(time.Millisecond)
	}
	r.EndedAt = <-ended
	r.Queued = judge.Queued(os.Getpid())
	if cause := context.Cause(ctx); errors.Is(cause, holdfast.ErrLost) {
		r.Cause = cause.Error()
	}
	if err := lock.Unlock(); errors.Is(err, holdfast.ErrLost) {
		r.Unlock = err.Error()
	}
	return out.Encode(r)
}
