package dashtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/browser"
	"github.com/holdfast-go/holdfast/redishold"
)

func (s *site) backend() driver.Backend { return redishold.New(s.connect(), nil) }

func findings(context.Context) []dash.Finding {
	return []dash.Finding{
		{Severity: dash.Danger, Title: "eviction", Text: "maxmemory-policy is allkeys-lru: a server that is full drops locks.", Remedy: "CONFIG SET maxmemory-policy noeviction"},
		{Severity: dash.Warning, Title: "replicas", Text: "The server has no replica.", Remedy: "Add one, and set min-replicas-to-write 1."},
		{Severity: dash.Note, Title: "persistence", Text: "appendonly is off.", Remedy: "Think about what a restart may forget."},
		{Severity: dash.Unknown, Title: "clock", Text: "The user may not ask."},
		{Severity: dash.Good, Title: "version", Text: "Redis 7.0.15."},
	}
}

const fill = `for i = 1, tonumber(ARGV[2]) do
  local key = string.format('lock:%05d', i)
  redis.call('HSET', key, ARGV[1] .. ':' .. (i % 50), 1)
  redis.call('PEXPIRE', key, 3600000)
end`

// With 10,000 locks the first row is there at once, what is shown is not old, the
// tab answers, and Redis hardly notices.
func TestTenThousandLocks(t *testing.T) {
	s := start(t, nil)
	s.redis.Do("EVAL", fill, "0", java, "10000")
	p := open(t, desktop())
	// What a page without anything costs here and now: other programs may be busy.
	p.Visit(s.url("static/icon.svg"))
	began := time.Now()
	p.Visit(s.url("static/icon.svg"))
	bare := time.Since(began)
	t.Logf("a bare page takes %v", bare)

	s.promised("the first row was there", time.Second+bare, func() time.Duration {
		p.Visit(s.url("static/icon.svg"))
		s.dash.Swap(dash.Handler(admin.New(s.backend()), nil)).Close()
		began := time.Now()
		p.Visit(s.url(""))
		p.Until(5*time.Second, "the first row", "document.querySelector('#rows tr')")
		return time.Since(began)
	})
	p.Until(10*time.Second, "a full page", "document.querySelectorAll('#rows tr').length === 25")
	awaitUpdates(p, 2)

	// What the machine costs any page meanwhile: one that does nothing shows.
	idle := open(t, desktop())
	idle.Visit(s.url("static/icon.svg"))
	measured := time.Now() // before the commands are counted: rather too long than too short
	before, shown := commands(s), updates(p)
	watchPauses(idle)
	watchPauses(p)
	late := await.Starved(func() {
		until := time.Now().Add(15 * time.Second)
		for i := range 8 {
			s.change(p, browser.Eval[string](p, fmt.Sprintf("document.querySelectorAll('#rows tr')[%d].querySelector('th').innerText", i)))
		}
		time.Sleep(time.Until(until))
	})
	pause, longest := longestPause(idle), longestPause(p)
	t.Logf("the tab paused for %v, an idle one for %v; the machine stood still for %v", longest, pause, late)
	if longest > 200*time.Millisecond+2*pause+late {
		t.Errorf("the tab answered within %v, want 200ms more than twice the %v of an idle one, and the %v in which the machine stood still", longest, pause, late)
	}
	shown = updates(p) - shown
	if every := (time.Since(measured) - late) / time.Duration(shown+1); every > time.Second {
		t.Errorf("%d updates, one in %v, want one each second", shown, every)
	}
	rate := float64(commands(s)-before) / time.Since(measured).Seconds()
	t.Logf("%.0f commands per second", rate)
	if rate >= 200 {
		t.Errorf("Redis ran %.0f commands per second, want less than 200", rate)
	}
}

const handOver = `redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], 3600000)`

// change gives a lock of the page to another holder, which the page has to show.
func (s *site) change(p *browser.Tab, name string) {
	s.Helper()
	s.holders++
	thread := itoa(777_000 + s.holders)
	wantSoon(p, "the change of "+name, func() { s.redis.Do("EVAL", handOver, "1", name, java+":"+thread) }, fmt.Sprintf("%s && %[1]s.innerText.includes('thread %s')", row(name), thread))
}

// watchPauses begins to measure for how long the tab does nothing.
func watchPauses(p *browser.Tab) {
	p.Helper()
	browser.Eval[bool](p, `(() => { window.longest = 0; let last = performance.now();
		setInterval(() => { const now = performance.now(); window.longest = Math.max(window.longest, now - last); last = now; }, 10);
		return true; })()`)
}

func longestPause(p *browser.Tab) time.Duration {
	p.Helper()
	return time.Duration(browser.Eval[float64](p, "window.longest") * float64(time.Millisecond))
}

// commands returns how many commands the server has run, inside of scripts too.
func commands(s *site) (n int64) {
	for name, calls := range s.redis.CommandStats() {
		if !strings.HasPrefix(name, "info") {
			n += calls
		}
	}
	return n
}
