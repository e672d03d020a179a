package matrix

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// Faults in which a server says "not now".

// notReady: the server says "not now" a few times.
func notReady(words ...string) func(*scenario) {
	return func(s *scenario) {
		c := s.client()
		sc := s.scripts()
		for _, words := range words {
			answer := func() faultproxy.Action { return faultproxy.Reply("-" + words + "\r\n") }
			if s.on == single {
				c.triesAFewTimes(words, answer)
			}
			refused := c.on(s.script(sc.Acquire), answer, faultproxy.Times(3))
			k := c.take()
			s.wait(refused, 3)
			refused.release()
			refused = c.on(s.script(sc.Renew), answer, faultproxy.Times(2))
			s.wait(refused, 2)
			refused.release()
			k.stays(s.ttl / 2)
			refused = c.on(s.script(sc.Release, sc.Abandon), answer, faultproxy.Times(2))
			k.mustUnlock()
			s.wait(refused, 2)
			refused.release()
		}
	}
}

// triesAFewTimes wants a TryLock to ask again, but not for long, and to return the
// server's words.
func (c *client) triesAFewTimes(words string, answer func() faultproxy.Action) {
	c.Helper()
	refused := c.on(c.script(c.scripts().Acquire), answer, faultproxy.Always())
	_, err := c.ofKindNow(c.bounded(), c.kind)
	refused.release()
	if errors.Is(err, holdfast.ErrBusy) || !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), words) {
		c.Errorf("TryLock: got %v, want %q", err, words)
	}
	if n := refused.count(); n < 2 || n > 5 {
		c.Errorf("TryLock asked %d times, want a few", n)
	}
}

// loading: the server starts with so much data that it takes seconds.
func loading(s *scenario) {
	s.ttl = 12 * time.Second
	server := redistest.Start(s, redistest.AOF(), redistest.Conf("key-load-delay 100"))
	s.alone = []*redistest.Server{server}
	server.Do("EVAL", "for i = 1, 10000 do redis.call('SET', 'more', 'x', 'PX', '60000') end", "0")
	c, o := s.client(), s.client()
	k := c.take()
	server.Kill()
	notified := o.onReply(s.script("acquire"), says("-LOADING "))
	back := make(chan struct{})
	go func() {
		defer close(back)
		server.Restart()
	}()
	o.waitsUntil(func() { <-back })
	if notified.Load() == 0 {
		s.Error("no acquire was answered LOADING")
	}
	c.renewed(k, 1)
	k.mustBeHeld()
	s.wantHeld()
	k.mustUnlock()
}

// waitsUntil asks for a lock of its own while the server says "not now", and
// fails the test if it is answered before ready returns, or not soon after.
func (c *client) waitsUntil(ready func()) {
	c.Helper()
	got := make(chan error, 1)
	ctx := c.bounded()
	go func() {
		lock, err := c.locker.Lock(ctx, c.name+"-other")
		if err == nil {
			err = lock.Unlock()
		}
		got <- err
	}()
	select {
	case err := <-got:
		c.Fatalf("another lock was answered %v before the server was ready", err)
	case <-time.After(200 * time.Millisecond):
	}
	ready()
	at := time.Now()
	if err := <-got; err != nil {
		c.Errorf("another lock: %v", err)
	}
	c.within("another lock", time.Since(at), time.Second)
}

// busy: the server runs somebody's script without end, until that is killed.
func busy(s *scenario) {
	s.ttl = 3 * time.Second
	c, o := s.client(), s.client()
	server := s.alone[0]
	k := c.take()
	server.Do("CONFIG", "SET", "lua-time-limit", "100")
	over := make(chan any, 1)
	go func() { over <- server.Do("EVAL", "while true do end", "0") }()
	if !s.until(patience, func() bool { _, failed := server.Do("PING").(error); return failed }) {
		s.Fatal("the server is not busy")
	}
	refused := c.onReply(s.script("renew"), says("-BUSY "))
	o.waitsUntil(func() {
		if !s.until(patience, func() bool { return refused.Load() > 0 }) {
			s.Error("no renewal was answered BUSY")
		}
		server.Do("SCRIPT", "KILL")
		<-over
	})
	k.stays(s.ttl / 2)
	s.wantHeld()
	k.mustUnlock()
}

// onReply counts the replies to matching requests for which is holds.
func (c *client) onReply(match faultproxy.Match, is func(reply string) bool) *atomic.Int32 {
	var n atomic.Int32
	c.on(match, func() faultproxy.Action {
		return faultproxy.Rewrite(func(reply string) string {
			if is(reply) {
				n.Add(1)
			}
			return reply
		})
	}, faultproxy.Always())
	return &n
}

// says is a reply that begins with words.
func says(words string) func(reply string) bool {
	return func(reply string) bool { return strings.HasPrefix(reply, words) }
}

// fewReplicas: the servers want more replicas than there are, for longer than a
// lease. All of them do: on a busy machine Sentinel may choose another master meanwhile.
func fewReplicas(s *scenario) {
	before := map[*redistest.Server]string{}
	restore := func() {
		for server, n := range before {
			server.Do("CONFIG", "SET", "min-replicas-to-write", n)
		}
	}
	s.Cleanup(restore) // also where it fails in between
	s.neverReady("NOREPLICAS ", func() {
		for _, server := range s.servers() {
			before[server] = server.Map("CONFIG", "GET", "min-replicas-to-write")["min-replicas-to-write"]
			server.Do("CONFIG", "SET", "min-replicas-to-write", "3")
		}
	}, restore)
}

// neverReady: the servers refuse with words, for longer than a lease.
func (s *scenario) neverReady(words string, begin, end func()) {
	s.Helper()
	c, o := s.client(), s.other()
	k := c.take()
	w := o.queue(s.kind)
	begin()
	began := time.Now()
	k.lost(began, s.ttl)
	time.Sleep(time.Until(began.Add(s.ttl + call))) // until then the lock's record is in the way
	_, err := c.try(s.lasting(time.Second))         // for one answer at least
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("got %v, want the context's error", err)
	}
	if err == nil || !strings.Contains(err.Error(), `": `+words) {
		s.Errorf("got %v, want the server's words as well", err)
	}
	end()
	w.served().mustUnlock()
}
