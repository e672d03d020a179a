package locktest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// TestScriptsNameTheirKeys has MONITOR show that a script names every key that it touches, while
// programs use every kind of lock. scripttest has a test of every script.
func TestScriptsNameTheirKeys(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		all := s.server.Record(func() { useAll(s) })
		scripts, inside := map[string]bool{}, 0
		for _, e := range all {
			if e.Inside {
				inside++
			} else if strings.EqualFold(e.Args[0], "evalsha") {
				scripts[e.Args[1]] = true
			}
		}
		for _, text := range s.server.Undeclared(all) {
			s.Error(text)
		}
		if s.Logf("%d scripts ran %d commands", len(scripts), inside); len(scripts) < 20 {
			s.Errorf("only %d scripts ran", len(scripts))
		}
	})
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
