package dashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/internal/e2e/browser"
	"github.com/holdfast-go/holdfast/redishold"
)

// noted takes a lock as "holdfast hold" does with --reason and --label, where
// program is its own name, and as "holdfast run" does, where it is the command.
func (s *site) noted(name, program, reason string) *holdfast.Lock {
	s.Helper()
	host, err := os.Hostname()
	if err != nil {
		s.Fatal(err)
	}
	store := redishold.New(s.connect(), nil)
	locker := holdfast.New(store, &holdfast.Options{
		Note: fmt.Sprintf("%s@%s:%d (%s) team=infra", program, host, os.Getpid(), reason), Observe: audit.New(store, nil).Observe,
	})
	lock, err := locker.TryLock(s.Context(), name)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = lock.Unlock() })
	return lock
}

// The reason of a hold is on every page, apart from its holder, and a search finds it.
func TestReasonsAreShown(t *testing.T) {
	for screen, size := range map[string]browser.Screen{"desktop": desktop(), "phone": phone()} {
		t.Run(screen, func(t *testing.T) {
			s := start(t, &dash.Options{AllowUnlock: true, Authorize: everybodyOperates})
			held := s.noted("deploy/prod", filepath.Base(os.Args[0]), "db <maintenance>")
			s.noted("backup", "rsync", "nightly")
			s.lock("other")
			p := open(t, size)
			shown := func(path, within, reason string) {
				t.Helper()
				p.Visit(s.url(path))
				p.Until(10*time.Second, reason+" on "+path, fmt.Sprintf(
					"[...document.querySelectorAll('%s .reason')].some((e) => e.innerText === %q) && [...document.querySelectorAll('%s .labels')].some((e) => e.innerText === 'team=infra')",
					within, reason, within))
				for _, problem := range p.Audit() {
					t.Errorf("%s: %s", path, problem)
				}
				p.Shot(screen + "-reason-" + strings.NewReplacer("/", "-", "?", "-", "=", "-", "%", "-").Replace(path))
			}
			shown("", "#rows", "db <maintenance>")
			shown("", "#rows", "nightly")
			shown("lock?name=deploy%2Fprod", "#state", "db <maintenance>")
			shown("holders", "#rows", "db <maintenance>")
			shown("event-log", "#rows", "nightly")
			shown("lock?name=backup", "#timeline", "nightly")
			p.Visit(s.url("unlock?name=deploy%2Fprod"))
			if text := p.Text("main"); !strings.Contains(text, "db <maintenance>") || !strings.Contains(text, "team=infra") {
				t.Errorf("the page that forces a lock says %s", text)
			}
			p.Visit(s.url("lock?name=backup"))
			if text := p.Text("#state"); strings.Count(text, fmt.Sprintf(":%d", os.Getpid())) != 1 || !strings.Contains(text, "rsync@") {
				t.Errorf("got %s, want the command, and the process once", text)
			}

			for path, want := range map[string]int{"?q=MAINTENANCE": 1, "?q=infra": 2, "event-log?q=infra": 2, "event-log?q=maintenance": 1} {
				p.Visit(s.url(path))
				p.Until(5*time.Second, path, fmt.Sprintf("document.querySelectorAll('#rows tr:not(.renewed)').length === %d", want)) // a renewal is seen if it takes long
			}
			if err := held.Unlock(); err != nil {
				t.Fatal(err)
			}
			p.Visit(s.url("event-log?q=maintenance"))
			p.Until(10*time.Second, "the reason beside the end of the hold", "document.querySelector('#rows tr.released .reason')")
		})
	}
}
