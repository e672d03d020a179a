package locktest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// lostReplies are the ways in which a reply does not reach the client although
// the script ran, and those in which the script did not run.
func lostReplies() map[string]func() faultproxy.Action {
	return map[string]func() faultproxy.Action{
		"reply lost":        faultproxy.CutAfterExecution,
		"request dropped":   faultproxy.DropRequest,
		"reply held":        faultproxy.HoldReply,
		"reset mid-command": faultproxy.ResetMidCommand,
		"cut":               faultproxy.Cut,
	}
}

// Whatever becomes of one request or reply, the caller sees none of it: the hold
// count is 1, then 0, and no key stays.
func TestOneLostReply(t *testing.T) {
	await.NotShort(t, "takes long")
	for fault, action := range lostReplies() {
		t.Run(fault, func(t *testing.T) {
			eachAdapter(t, func(s *subject) {
				l := s.locker(&holdfast.Options{TTL: 10 * time.Second}) // time for a dead link to be noticed twice
				s.warm(l)

				rule := s.proxy.On(faultproxy.Script(redistest.ScriptSHA(s, "acquire")), action())
				lock := must.Lock(s, l, "stock:42")
				rule.Wait(s, 1)
				rule.Release()
				s.wantHolds(t, "1")

				rule = s.proxy.On(faultproxy.Script(redistest.ScriptSHA(s, "renew")), action())
				rule.Wait(s, 1)
				time.Sleep(time.Second) // past the retry, and less than the lease
				rule.Release()
				if err := lock.Err(); err != nil {
					s.Errorf("after a renewal without an answer: %v", err)
				}
				s.wantHolds(t, "1")

				// A claim with an unanswered acquire is released with a mark.
				rule = s.proxy.On(anyScript(s, "release", "abandon"), action())
				if err := lock.Unlock(); err != nil {
					s.Errorf("Unlock: %v", err)
				}
				rule.Wait(s, 1)
				rule.Release()
				gone(s, s.server.Admin, time.Second)
			})
		})
	}
}

// anyScript matches the runs of several of the engine's scripts.
func anyScript(s *subject, names ...string) faultproxy.Match {
	var matches []faultproxy.Match
	for _, name := range names {
		matches = append(matches, faultproxy.Script(redistest.ScriptSHA(s, name)))
	}
	return func(cmd []string) bool {
		return slices.ContainsFunc(matches, func(m faultproxy.Match) bool { return m(cmd) })
	}
}

// The same while the count changes.
func TestLostReplyOfReentry(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		l := s.locker(nil)
		s.warm(l)
		ctx := holdfast.WithOwner(s.Context())
		lock, err := l.Lock(ctx, "stock:42")
		if err != nil {
			s.Fatal(err)
		}
		for _, step := range []struct {
			do   func() error
			want string
		}{
			{func() error { _, err := l.Lock(ctx, "stock:42"); return err }, "2"},
			{func() error { _, err := l.TryLock(ctx, "stock:42"); return err }, "3"},
			{lock.Unlock, "2"},
			{lock.Unlock, "1"},
		} {
			rule := s.proxy.On(faultproxy.Script(redistest.ScriptSHA(s, "renew")), faultproxy.CutAfterExecution())
			if err := step.do(); err != nil {
				s.Fatal(err)
			}
			rule.Wait(s, 1)
			s.wantHolds(t, step.want)
		}
		must.Unlock(s, lock)
		gone(s, s.server.Admin, 0)
	})
}

// An acquire that reaches Redis only after its claim was given up and cleaned up
// creates nothing.
func TestLateAcquireCreatesNothing(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		l := s.locker(nil)
		s.warm(l)
		known := map[string]bool{} // marks of the rounds before, which a repeated clean-up may write again
		for range 5 {
			late := s.proxy.On(faultproxy.Script(redistest.ScriptSHA(s, "acquire")), faultproxy.DelayRequest(0))
			ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
			go func() {
				select {
				case <-late.Fired():
					cancel()
				case <-ctx.Done():
				}
			}()
			_, err := l.Lock(ctx, "stock:42")
			cancel()
			if !errors.Is(err, context.Canceled) {
				s.Fatalf("got %v, want the context's error", err)
			}
			late.Wait(s, 1)
			// The clean-up goes over another connection and is first.
			s.proxy.HangUpAll()
			marked := await.Eventually(3*time.Second, func() bool {
				return slices.ContainsFunc(marks(s.server.Admin), func(key string) bool { return !known[key] })
			})
			if !marked {
				s.Fatal("the claim was not cleaned up")
			}
			wrote, answered := s.server.CommandStats()["hset"], s.unheard("acquire")
			late.Release()
			if !await.Eventually(3*time.Second, func() bool { return s.unheard("acquire") > answered }) {
				s.Fatal("the late acquire did not arrive")
			}
			if got := lockKeys(s.server.Admin); len(got) != 0 || s.server.CommandStats()["hset"] != wrote {
				s.Fatalf("the late acquire created %q", got)
			}
			for _, key := range marks(s.server.Admin) {
				if known[key] {
					continue // it may be about to end
				}
				if ttl := s.server.Int("PTTL", key); ttl <= 0 || ttl > 31_000 {
					s.Errorf("mark %q lives %d ms, want at most one TTL", key, ttl)
				}
				known[key] = true
			}
		}
		must.Unlock(s, must.Lock(s, l, "stock:42"))
	})
}

// unheard counts the runs of a script that the server answered when the client
// had hung up.
func (s *subject) unheard(script string) int {
	s.Helper()
	runs, n := faultproxy.Script(redistest.ScriptSHA(s, script)), 0
	for _, w := range s.proxy.Withheld() {
		if w.Forwarded && w.Reply != "" && runs(w.Command) {
			n++
		}
	}
	return n
}

func marks(a redistest.Admin) []string {
	var found []string
	for _, key := range a.Keys() {
		if len(key) > 14 && key[:14] == "holdfast:gone:" {
			found = append(found, key)
		}
	}
	return found
}

// A full server refuses new locks at once, and lets go of those that are held.
func TestFullServer(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		l := s.locker(&holdfast.Options{TTL: time.Second})
		s.warm(l)
		lock := must.Lock(s, l, "held")
		ctx := holdfast.WithOwner(s.Context())
		twice, err := l.Lock(ctx, "twice")
		if err != nil {
			s.Fatal(err)
		}
		s.server.Do("CONFIG", "SET", "maxmemory", "1")
		start := time.Now()
		_, err = l.Lock(s.Context(), "new")
		if !errors.Is(err, driver.ErrRefused) {
			s.Errorf("Lock on a full server: got %v, want ErrRefused", err)
		}
		within(s, "time to the error", time.Since(start), 500*time.Millisecond)
		if _, err := l.Lock(ctx, "twice"); err != nil {
			s.Errorf("re-entry on a full server: %v", err)
		}
		time.Sleep(1500 * time.Millisecond)
		if err := lock.Err(); err != nil {
			s.Errorf("renewals on a full server: %v", err)
		}
		must.Unlock(s, lock)
		must.Unlock(s, twice)
		must.Unlock(s, twice)
		gone(s, s.server.Admin, 0)
	})
}

// A user whose rights were taken away while locks are held.
func TestRightsRevoked(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		l := s.locker(&holdfast.Options{TTL: time.Second})
		s.warm(l)
		for _, command := range []string{"hset", "pexpire", "set", "exists", "hget", "pttl", "time"} {
			s.server.Do("ACL", "SETUSER", "default", "-"+command)
			start := time.Now()
			lock, err := l.Lock(s.Context(), "new")
			var reached bool
			if reached = errors.Is(err, driver.ErrRefused); lock != nil || !reached {
				// what looks at a lock is not part of a first acquire
				if command != "pttl" && command != "hget" || err != nil {
					s.Errorf("without %s: got %v, want ErrRefused", command, err)
				}
			}
			within(s, "time to the error without "+command, time.Since(start), 500*time.Millisecond)
			s.server.Do("ACL", "SETUSER", "default", "+"+command)
			if lock != nil {
				must.Unlock(s, lock)
			}
			gone(s, s.server.Admin, time.Second)
			if keys := s.server.KeysWithoutTTL(isCounter); len(keys) != 0 {
				s.Errorf("without %s: keys without a TTL: %q", command, keys)
			}
		}
	})
}
