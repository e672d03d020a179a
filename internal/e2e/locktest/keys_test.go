package locktest

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// TestScriptsNameTheirKeys has MONITOR show that a script which writes names every key that
// it touches, but for what it only tries to read, because no client knows the name before:
// leases of other readers, and who a holder is.
func TestScriptsNameTheirKeys(t *testing.T) {
	only := regexp.MustCompile(`^(\{.*\}:.*:rwlock_timeout:\d+|holdfast:client:.*)$`)
	eachAdapter(t, func(s *subject) {
		end := monitorAll(s)
		useAll(s)
		scripts, touched := map[string]bool{}, 0
		for _, run := range runs(end()) {
			if !run.writes() {
				continue
			}
			scripts[run.call.args[1]] = true
			for _, c := range run.inside {
				for _, key := range keysOf(c) {
					touched++
					if read := !isWrite(c) && only.MatchString(key); !read && !slices.Contains(run.keys(), key) {
						s.Errorf("a script with the keys %q runs %q", run.keys(), c.args)
					}
				}
			}
		}
		if s.Logf("%d scripts that write touched %d keys", len(scripts), touched); len(scripts) < 15 {
			s.Errorf("only %d scripts wrote", len(scripts))
		}
	})
}

// run is a script, and the commands in it.
type run struct {
	call   command
	inside []command
}

func runs(commands []command) (all []run) {
	for _, c := range commands {
		switch {
		case !c.lua && (c.args[0] == "evalsha" || c.args[0] == "eval"):
			all = append(all, run{call: c})
		case c.lua && len(all) > 0:
			last := &all[len(all)-1]
			last.inside = append(last.inside, c)
		}
	}
	return all
}

func (r run) writes() bool { return slices.ContainsFunc(r.inside, isWrite) }

func (r run) keys() []string {
	n, _ := strconv.Atoi(r.call.args[2])
	return r.call.args[3 : 3+n]
}

func isWrite(c command) bool {
	return slices.Contains([]string{
		"set", "del", "hset", "hdel", "pexpire", "incrby", "rpush", "lpop", "lrem", "zadd", "zrem", "zremrangebyscore", "xadd",
	}, c.args[0])
}

// keysOf returns the keys of a command of a script.
func keysOf(c command) []string {
	switch c.args[0] {
	case "time", "publish", "spublish", "pubsub", "info", "cluster", "scan":
		return nil
	case "exists", "del":
		return c.args[1:]
	default:
		return c.args[1:2]
	}
}

// useAll takes every kind of lock, waits for some, and ends some by force.
func useAll(s *subject) {
	same := faultproxy.Rewrite(func(reply string) string { return reply })
	renewed := s.proxy.On(faultproxy.Script(redistest.ScriptSHA(s, "rw_read_renew")), same, faultproxy.Always())
	holders := s.locker(&holdfast.Options{TTL: 900 * time.Millisecond})
	waiters := s.locker(nil)
	hold := func(lock func(context.Context, ...holdfast.Option) (*holdfast.Lock, error)) *holdfast.Lock {
		s.Helper()
		held, err := lock(await.Context(s, 10*time.Second))
		if err != nil {
			s.Fatal(err)
		}
		return held
	}
	semaphore := func(l *holdfast.Locker) func(context.Context, ...holdfast.Option) (*holdfast.Lock, error) {
		return l.Semaphore("semaphore", 1).Acquire
	}
	held := []*holdfast.Lock{
		hold(holders.Mutex("mutex").Lock), hold(holders.FairMutex("fair").Lock), hold(semaphore(holders)),
		hold(holders.RWMutex("rw").Read.Lock), hold(waiters.RWMutex("rw").Read.Lock), hold(holders.RWMutex("written").Write.Lock),
	}
	done := make(chan error, 5)
	for _, lock := range []func(context.Context, ...holdfast.Option) (*holdfast.Lock, error){
		waiters.Mutex("mutex").Lock, waiters.FairMutex("fair").Lock, semaphore(waiters),
		waiters.RWMutex("rw").Write.Lock, waiters.RWMutex("written").Read.Lock,
	} {
		go func() {
			next, err := lock(await.Context(s, 20*time.Second))
			if err == nil {
				err = next.Unlock()
			}
			done <- err
		}()
	}
	renewed.Wait(s, 2)
	for _, l := range held {
		if err := l.Unlock(); err != nil {
			s.Error(err)
		}
	}
	for range cap(done) {
		if err := <-done; err != nil {
			s.Error(err)
		}
	}
	forceAll(s, holders)
	s.server.Do("DEL", "semaphore", "f semaphore") // which stay
}

// forceAll ends holds of several kinds by force.
func forceAll(s *subject, l *holdfast.Locker) {
	ctx := await.Context(s, 20*time.Second)
	console := s.console(nil)
	for name, lock := range map[string]func(context.Context, ...holdfast.Option) (*holdfast.Lock, error){
		"f mutex": l.Mutex("f mutex").Lock, "f rw": l.RWMutex("f rw").Read.Lock, "f semaphore": l.Semaphore("f semaphore", 2).Acquire,
	} {
		if _, err := lock(ctx); err != nil {
			s.Fatal(err)
		}
		found, err := console.Describe(ctx, name)
		if err != nil || len(found.Holds) != 1 {
			s.Fatalf("%s: got %+v, %v", name, found, err)
		}
		if err := console.ForceUnlock(ctx, name, found.Holds[0].Holder, "why"); err != nil {
			s.Error(err)
		}
	}
}
