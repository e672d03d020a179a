package dashtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/internal/e2e/browser"
	"github.com/holdfast-go/holdfast/redishold"
)

// telling returns a Locker of a program that records what happens to its locks.
func (s *site) telling(note string, ttl time.Duration) *holdfast.Locker {
	s.Helper()
	store := redishold.New(s.connect(), nil)
	return holdfast.New(store, &holdfast.Options{Note: note, Observe: audit.New(store, nil).Observe, TTL: ttl})
}

// events is an expression: what the timeline of a lock shows, the latest first.
const events = "[...document.querySelectorAll('#timeline .event')].map((e) => e.innerText).join()"

// A hold has one end, though a key that is gone is seen at once, and its holder
// notices later.
func TestDeletedLockHasOneEnd(t *testing.T) {
	s := start(t, nil)
	p := open(t, desktop())
	lock, err := s.telling("first", 9*time.Second).TryLock(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	p.Visit(s.url("lock?name=job"))
	p.Until(10*time.Second, "the grant", events+".includes('acquired')")
	s.redis.Do("DEL", "job")
	p.Until(5*time.Second, "that it is over", "document.querySelector('#state').innerText.includes('Free')")
	<-lock.Context(t.Context()).Done()
	p.Until(10*time.Second, "the loss in place of what was seen", events+".includes('lost') && !"+events+".includes('released')")
	if text := p.Text("#timeline"); !strings.Contains(text, "deleted") || !strings.Contains(text, "first") {
		t.Errorf("got %s, want who lost it, and why", text)
	}
	_ = lock.Unlock()
}

// Who gets a forced lock stands above the end of the hold before.
func TestForcedLockReadsInOrder(t *testing.T) {
	s := start(t, &dash.Options{AllowUnlock: true, Authorize: everybodyOperates})
	p := open(t, phone())
	first, err := s.telling("first", 9*time.Second).TryLock(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := first.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the first holder got %v", err)
		}
	}()
	next := make(chan *holdfast.Lock)
	second := s.telling("second", 9*time.Second)
	go func() {
		defer close(next)
		if lock, err := second.Lock(t.Context(), "job"); err == nil {
			next <- lock
		}
	}()
	p.Visit(s.url("lock?name=job"))
	p.Until(10*time.Second, "the waiter", "document.querySelector('#state').innerText.includes('1')")
	store := redishold.New(s.connect(), nil)
	records, err := store.Get(t.Context(), "job")
	if err != nil || records[0].Holders != 1 {
		t.Fatalf("got %v, %v", records, err)
	}
	h := records[0].Holds[0].Holder
	if err := store.ForceUnlock(t.Context(), "job", h, "stuck"); err != nil {
		t.Fatal(err)
	}
	audit.New(store, &audit.Options{Note: "second"}).Forced("job", h, "stuck")
	lock := <-next
	if lock == nil {
		t.Fatal("nobody got the lock")
	}
	defer func() { _ = lock.Unlock() }()
	<-first.Context(t.Context()).Done()
	order := fmt.Sprintf(`(() => {
		const rows = [...document.querySelectorAll('#timeline li')].map((e) => e.innerText);
		const at = (what, who) => rows.findIndex((r) => r.includes(what) && r.includes(who));
		window.rows = rows.join('\n');
		return at('lost', 'first') > 0 && at('forced', %q) > 0 && at('acquired', 'second') >= 0 &&
			at('acquired', 'second') < at('lost', 'first') && at('acquired', 'second') < at('forced', %[1]q) &&
			at('acquired', 'first') > at('lost', 'first');
	})()`, "stuck")
	p.Until(15*time.Second, "the order in which it was", order)
}

// What is rare is found with one click, on a phone as well, and stays chosen while
// the page is updated.
func TestEventLogFilters(t *testing.T) {
	for screen, size := range map[string]browser.Screen{"desktop": desktop(), "phone": phone()} {
		t.Run(screen, func(t *testing.T) {
			s := start(t, nil)
			p := open(t, size)
			lock, err := s.telling("first", 3*time.Second).TryLock(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			p.Visit(s.url("event-log"))
			p.Until(10*time.Second, "the grant", "document.querySelector('#rows tr.acquired')")
			click(p, "nav.chips a[href='event-log?what=lost']")
			p.Until(5*time.Second, "nothing lost yet", "location.search === '?what=lost' && !document.querySelector('#rows tr') && document.querySelector('#empty').innerText.includes('matches')")
			s.redis.Do("DEL", "job")
			<-lock.Context(t.Context()).Done()
			_ = lock.Unlock()
			s.lock("other")
			p.Until(10*time.Second, "the loss, and nothing else", "document.querySelectorAll('#rows tr').length === 1 && document.querySelector('#rows tr.lost')")
			if chosen := p.Text("nav.chips [aria-current]"); chosen != "lost" {
				t.Errorf("got %q chosen, want lost", chosen)
			}
			for _, problem := range p.Audit() {
				t.Error(problem)
			}
			p.Shot(screen + "-history-lost")
		})
	}
}
