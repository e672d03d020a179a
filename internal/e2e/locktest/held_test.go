package locktest

import (
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// What Redis shows of a lock is what Redisson shows of its own.
func TestLockInRedis(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		const ttl = 1500 * time.Millisecond
		l := s.locker(&holdfast.Options{TTL: ttl})
		s.warm(l)
		heard := s.server.Listen("*")
		ctx := holdfast.WithOwner(s.Context())

		lock, err := l.Lock(ctx, "stock:42")
		if err != nil {
			s.Fatal(err)
		}
		s.wantHolds(t, "1")
		// Renewed each third: the lease never falls below two thirds, less the
		// time that a renewal takes.
		lowest := ttl
		for range 300 {
			left := time.Duration(s.server.Int("PTTL", "stock:42")) * time.Millisecond
			if left <= 0 || left > ttl {
				s.Fatalf("PTTL: got %v, want above 0 and at most %v", left, ttl)
			}
			lowest = min(lowest, left)
			time.Sleep(5 * time.Millisecond)
		}
		if lowest < ttl/2 || lowest > ttl*3/4 {
			s.Errorf("lowest PTTL in %v: got %v, want about two thirds of %v", ttl, lowest, ttl)
		}

		again, err := l.Lock(lock.Context(ctx), "stock:42")
		if err != nil || again != lock {
			s.Fatalf("re-entry: got %v, %v", again, err)
		}
		s.wantHolds(t, "2")
		must.Unlock(s, again)
		s.wantHolds(t, "1")
		if got := heard.Messages(); len(got) != 0 {
			s.Errorf("messages while held: %v", got)
		}
		must.Unlock(s, lock)
		if got := s.server.Int("EXISTS", "stock:42"); got != 0 {
			s.Error("the key is still there after the last Unlock")
		}
		s.server.Do("PUBLISH", "end", "")
		got := heard.Wait(2)
		if len(got) != 2 || got[0].Channel != "redisson_lock__channel:{stock:42}" || got[0].Payload != "0" {
			s.Errorf("messages: got %v, want one 0 on the lock's channel", got)
		}
	})
}

// A reply that is lost while the count changes is not noticed: each step counts once.
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

// wantHolds fails unless the lock's hash is one field, an owner with that count.
func (s *subject) wantHolds(t *testing.T, want string) {
	t.Helper()
	hash := s.server.Map("HGETALL", "stock:42")
	if len(hash) != 1 {
		t.Fatalf("HGETALL: got %v, want one field", hash)
	}
	owner := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:[0-9]+$`)
	for field, count := range hash {
		if !owner.MatchString(field) || count != want {
			t.Fatalf("HGETALL: got %q → %q, want <uuid>:<number> → %q", field, count, want)
		}
	}
}
