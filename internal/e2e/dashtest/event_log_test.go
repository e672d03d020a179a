package dashtest

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/audit"
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

// A hold has one end, although polling finds at once that its key is gone, and its holder
// notices that later.
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
	p.Until(10*time.Second, "the loss, and no release", events+".includes('lost') && !"+events+".includes('released')")
	if text := p.Text("#timeline"); !strings.Contains(text, "deleted") || !strings.Contains(text, "first") {
		t.Errorf("got %s, want who lost it, and why", text)
	}
	_ = lock.Unlock()
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
