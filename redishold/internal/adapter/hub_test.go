package adapter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

// shortestPause is the first pause at the longest, see retry.Delay.
const shortestPause = 10 * time.Millisecond

// fakeServer is the other end of a fakeLink. Tests change its behaviour through set, and read it
// through get.
type fakeServer struct {
	mu sync.Mutex
	behaviour
	dialled int
	link    *fakeLink // the current one
	log     []string
}

type behaviour struct {
	refuse error // what dialling fails with
	deny   error // what SUBSCRIBE fails with
	mute   bool  // SUBSCRIBE and UNSUBSCRIBE get no answer
	hang   error // what SUBSCRIBE fails with, but only some time after its link is no longer needed
	silent error // what Check fails with
}

func (s *fakeServer) set(b behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behaviour = b
}

func (s *fakeServer) get() (dialled int, link *fakeLink, log []string) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dialled, s.link, slices.Clone(s.log)
}

// breakLink breaks the current link.
func (s *fakeServer) breakLink() {
	_, link, _ := s.get()
	close(link.down)
}

func (s *fakeServer) note(line string) behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, line)
	return s.behaviour
}

func (s *fakeServer) dial(ctx context.Context, ev *Session) (Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialled++
	if s.refuse != nil {
		return nil, s.refuse
	}
	s.link = &fakeLink{ctx, s, ev, make(chan error)}
	return s.link, nil
}

type fakeLink struct {
	ctx    context.Context
	server *fakeServer
	ev     *Session
	down   chan error
}

func (l *fakeLink) Subscribe(names []string) {
	for _, name := range names {
		switch b := l.server.note("+" + name); {
		case b.hang != nil:
			<-l.ctx.Done()
			time.Sleep(time.Second)
			l.ev.Denied(name, b.hang)
		case b.deny != nil:
			l.ev.Denied(name, b.deny)
		case !b.mute:
			l.ev.Subscribed(name)
		}
	}
}

func (l *fakeLink) Unsubscribe(names []string) {
	for _, name := range names {
		if b := l.server.note("-" + name); !b.mute {
			l.ev.Unsubscribed(name)
		}
	}
}

func (l *fakeLink) Check() error {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	return l.server.silent
}

func (l *fakeLink) Down() <-chan error { return l.down }
func (l *fakeLink) Close()             { l.server.note("closed") }

func ignore(redishold.Notice) {}

// counter counts confirmations.
type counter struct{ n atomic.Int32 }

func (c *counter) notify(n redishold.Notice) {
	if n.Subscribed {
		c.n.Add(1)
	}
}

func (c *counter) is(t *testing.T, want int32) {
	t.Helper()
	synctest.Wait()
	if got := c.n.Load(); got != want {
		t.Errorf("got %d confirmations, want %d", got, want)
	}
}

// keepingHub returns a Hub that checks its links every second, and keeps them as KeepLinks says.
func keepingHub(r Router) *Hub {
	h := NewHub(time.Second, r)
	h.idle = idleFor
	return h
}

// inBubble runs f where time is faked, and fails if a goroutine is left after the time idleFor.
func inBubble(t *testing.T, f func(t *testing.T, s *fakeServer, h *Hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		f(t, s, keepingHub(Dial(s.dial)))
		time.Sleep(idleFor)
		synctest.Wait()
	})
}

func TestLinkLivesWithItsListeners(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		a, _ := h.Subscribe(t.Context(), "a", ignore)
		b, _ := h.Subscribe(t.Context(), "b", ignore)
		a.Close()
		synctest.Wait()
		b.Close()
		time.Sleep(idleFor - 1)
		c, _ := h.Subscribe(t.Context(), "c", ignore)
		time.Sleep(idleFor)
		c.Close()
		time.Sleep(idleFor - 1)
		dialled, _, log := s.get()
		if want := []string{"+a", "+b", "-a", "-b", "+c", "-c"}; dialled != 1 || !slices.Equal(log, want) {
			t.Errorf("got %d links and %v, want 1 and %v", dialled, log, want)
		}
		time.Sleep(1)
		if _, _, log := s.get(); log[len(log)-1] != "closed" {
			t.Errorf("got %v, want the link closed", log)
		}
		d, _ := h.Subscribe(t.Context(), "d", ignore)
		if dialled, _, _ := s.get(); dialled != 2 {
			t.Errorf("got %d links, want 2", dialled)
		}
		d.Close()
	})
}

// Without an idle time the last channel is not unsubscribed: the link closes at once.
func TestLinkEndsWithItsLastListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		h := NewHub(time.Second, Dial(s.dial))
		a, _ := h.Subscribe(t.Context(), "a", ignore)
		b, _ := h.Subscribe(t.Context(), "b", ignore)
		a.Close()
		synctest.Wait()
		b.Close()
		dialled, _, log := s.get()
		if want := []string{"+a", "+b", "-a", "closed"}; dialled != 1 || !slices.Equal(log, want) {
			t.Errorf("got %d links and %v, want 1 and %v", dialled, log, want)
		}
		c, _ := h.Subscribe(t.Context(), "c", ignore)
		if dialled, _, _ := s.get(); dialled != 2 {
			t.Errorf("got %d links, want 2", dialled)
		}
		c.Close()
	})
}

// A link of an adapter that does not call KeepLinks need not report an error reply to an UNSUBSCRIBE.
// A newcomer must not wait for that.
func TestOlderLinkReportsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		h := NewHub(time.Second, Dial(s.dial))
		keep, _ := h.Subscribe(t.Context(), "keep", ignore)
		a, _ := h.Subscribe(t.Context(), "a", ignore)
		s.set(behaviour{mute: true})
		a.Close()
		s.get() // returns when the link has unsubscribed
		s.set(behaviour{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		again, err := h.Subscribe(ctx, "a", ignore)
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
		keep.Close()
	})
}

// Nobody can use a link that hangs, so it does not outlive its listeners for long.
func TestHungLinkEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		a, _ := h.Subscribe(t.Context(), "a", ignore)
		s.set(behaviour{hang: errors.New("link was given up")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Subscribe(ctx, "b", ignore); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want DeadlineExceeded", err)
		}
		s.set(behaviour{})
		a.Close()
		left := time.Now()
		_, link, _ := s.get()
		select {
		case <-link.ctx.Done():
			if took := time.Since(left); took != idleFor {
				t.Errorf("the link ended after %v, want %v", took, idleFor)
			}
		case <-time.After(time.Minute):
			t.Error("the link is still in use")
		}
		h.Close() // waits for the link
	})
}

// The reply to the Hub's own UNSUBSCRIBE says nothing about a listener that came later, and what
// was confirmed before that reply is an earlier subscription.
func TestRepliesHaveTheOrderOfTheCommands(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		a, _ := h.Subscribe(t.Context(), "a", ignore)
		s.set(behaviour{mute: true})
		a.Close()
		synctest.Wait()
		var c counter
		done := make(chan redishold.Subscription)
		go func() { done <- mustSubscribe(t, h, "a", c.notify) }()
		_, link, _ := s.get()
		link.ev.Subscribed("a")
		c.is(t, 0)
		link.ev.Unsubscribed("a")
		c.is(t, 0)
		link.ev.Subscribed("a")
		c.is(t, 1)
		again := <-done
		time.Sleep(longestPause)
		if dialled, _, log := s.get(); dialled != 1 || !slices.Equal(log, []string{"+a", "-a", "+a"}) {
			t.Errorf("got %d links and %v", dialled, log)
		}
		s.set(behaviour{})
		link.ev.Unsubscribed("a") // the slot has moved
		time.Sleep(longestPause)
		c.is(t, 2)
		again.Close()
	})
}

func TestBrokenLinkIsRestoredWithBackoff(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		var c counter
		sub, _ := h.Subscribe(t.Context(), "a", c.notify)
		s.set(behaviour{refuse: errors.New("refused")})
		s.breakLink()
		time.Sleep(time.Minute)
		if dialled, _, _ := s.get(); dialled < 60 || dialled > 150 {
			t.Errorf("tried %d times in a minute, want about once per second", dialled)
		}
		c.is(t, 1)
		s.set(behaviour{})
		time.Sleep(longestPause)
		c.is(t, 2)
		before, _, _ := s.get()
		s.breakLink() // of a link that worked: back to the shortest pause
		time.Sleep(shortestPause)
		c.is(t, 3)
		if after, _, _ := s.get(); after != before+1 {
			t.Errorf("took %d attempts, want 1", after-before)
		}
		sub.Close()
	})
}

func TestSilentLinkIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		var c counter
		sub, _ := h.Subscribe(t.Context(), "a", c.notify)
		s.set(behaviour{silent: errors.New("silent")})
		time.Sleep(time.Second + shortestPause)
		c.is(t, 2)
		sub.Close()
	})
}

func TestFirstSubscriptionFails(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		cause := errors.New("cause")
		for name, b := range map[string]behaviour{"denied": {deny: cause}, "refused": {refuse: cause}} {
			s.set(b)
			if _, err := h.Subscribe(t.Context(), "a", ignore); !errors.Is(err, cause) {
				t.Errorf("%s: got error %v, want its cause", name, err)
			}
		}
		s.set(behaviour{mute: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Subscribe(ctx, "a", ignore); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no answer: got error %v, want DeadlineExceeded", err)
		}
	}) // the bubble would not end if anything still ran
}

func TestDenialLeavesOldListeners(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		var c counter
		sub, _ := h.Subscribe(t.Context(), "a", c.notify)
		s.set(behaviour{deny: errors.New("NOPERM")})
		if _, err := h.Subscribe(t.Context(), "a", ignore); err == nil {
			t.Error("a denied listener was confirmed")
		}
		s.set(behaviour{})
		s.breakLink()
		time.Sleep(shortestPause)
		c.is(t, 2)
		sub.Close()
	})
}

// Listeners counts those that the server has confirmed over the current link.
func TestListeners(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		listeners := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := h.Listeners("a"); got != want {
				t.Errorf("%s: got %d listeners, want %d", when, got, want)
			}
		}
		listeners("before the first", 0)
		a, _ := h.Subscribe(t.Context(), "a", ignore)
		b, _ := h.Subscribe(t.Context(), "a", ignore)
		other, _ := h.Subscribe(t.Context(), "b", ignore)
		listeners("two", 2)

		s.set(behaviour{mute: true})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = h.Subscribe(ctx, "a", ignore) }()
		listeners("a third is not confirmed", 2)
		cancel()
		s.breakLink()
		time.Sleep(shortestPause)
		listeners("the new link is not confirmed", 0)
		s.set(behaviour{})
		s.breakLink()
		time.Sleep(longestPause)
		listeners("again", 2)

		a.Close()
		listeners("the first has left", 1)
		b.Close()
		listeners("all have left", 0)
		other.Close()
	})
}

func TestNewcomerWaitsForItsOwnConfirmation(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		var old, fresh []redishold.Notice
		a, _ := h.Subscribe(t.Context(), "a", func(n redishold.Notice) { old = append(old, n) })
		s.set(behaviour{mute: true})
		done := make(chan redishold.Subscription)
		go func() {
			b, _ := h.Subscribe(t.Context(), "a", func(n redishold.Notice) { fresh = append(fresh, n) })
			done <- b
		}()
		_, link, _ := s.get()
		link.ev.Message("a", "1")
		link.ev.Subscribed("a")
		link.ev.Message("a", "2")
		b := <-done
		if want := []redishold.Notice{{Subscribed: true}, {Payload: "1"}, {Payload: "2"}}; !slices.Equal(old, want) {
			t.Errorf("the old listener got %v, want %v", old, want)
		}
		if want := []redishold.Notice{{Subscribed: true}, {Payload: "2"}}; !slices.Equal(fresh, want) {
			t.Errorf("the newcomer got %v, want %v", fresh, want)
		}
		a.Close()
		b.Close()
	})
}

func TestOldLinkHasNoSay(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		a, _ := h.Subscribe(t.Context(), "a", ignore)
		_, old, _ := s.get()
		a.Close()
		time.Sleep(idleFor)
		synctest.Wait()
		s.set(behaviour{mute: true})
		var c counter
		done := make(chan redishold.Subscription)
		go func() {
			b, err := h.Subscribe(t.Context(), "a", c.notify)
			if err != nil {
				t.Errorf("got error %v", err)
			}
			done <- b
		}()
		_, link, _ := s.get()
		old.ev.Subscribed("a")
		old.ev.Denied("a", errors.New("old"))
		c.is(t, 0)
		link.ev.Subscribed("a")
		c.is(t, 1)
		(<-done).Close()
	})
}

func TestEndOfOldLinkIsNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		s.set(behaviour{hang: errors.New("link was given up")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Subscribe(ctx, "a", ignore); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want DeadlineExceeded", err)
		}
		s.set(behaviour{})
		sub, err := h.Subscribe(t.Context(), "a", ignore) // comes while the old link is still ending
		if err != nil {
			t.Fatalf("got the old link's error: %v", err)
		}
		sub.Close()
	})
}

// So is the end of one that was given up while it was being made.
func TestEndOfDialIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		slow := true
		h := keepingHub(Dial(func(ctx context.Context, ev *Session) (Link, error) {
			if slow {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil, ctx.Err()
			}
			return s.dial(ctx, ev)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Subscribe(ctx, "a", ignore); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want DeadlineExceeded", err)
		}
		synctest.Wait()
		slow = false
		sub, err := h.Subscribe(t.Context(), "a", ignore) // comes while the old link is still being given up
		if err != nil {
			t.Fatalf("got the error of somebody else's link: %v", err)
		}
		sub.Close()
		time.Sleep(idleFor)
		synctest.Wait()
	})
}

func TestHubClose(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		sub, _ := h.Subscribe(t.Context(), "a", ignore)
		h.Close()
		h.Close()
		if _, _, log := s.get(); !slices.Equal(log, []string{"+a", "closed"}) {
			t.Errorf("got %v, want +a closed", log)
		}
		if _, err := h.Subscribe(t.Context(), "a", ignore); !errors.Is(err, driver.ErrNotExecuted) {
			t.Errorf("after Close: got error %v, want ErrNotExecuted", err)
		}
		sub.Close()
	})
}
