//go:build unix

package cli

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

func TestResize(t *testing.T) {
	onBoth(t, testResize)
}

func testResize(t *testing.T, s *site) {
	s.run("resize", "jobs", "3").want(t, 1, "no semaphore", "hold --permits 3 jobs")
	l := s.locker("ci")
	s.take(func() (*holdfast.Lock, error) { return l.Semaphore("jobs", 2).TryAcquire(t.Context()) })

	// A number that has no effect is said, with what does have one.
	s.run("run", "--permits=3", "jobs", "--", "true").want(t, 0, `2 permits, so --permits 3 has no effect`, "holdfast resize jobs 3")
	s.run("run", "--permits=2", "jobs", "--", "true").want(t, 0)

	for _, c := range []struct{ permits, want string }{
		{"3", "3 permits, 2 before, 2 free"}, {"3", "3 permits, 3 before, 2 free"}, {"1", "1 permit, 3 before, 0 free"},
	} {
		got := s.run("resize", "jobs", c.permits)
		got.want(t, 0)
		if !strings.Contains(got.stdout, c.want) {
			t.Errorf("to %s: got %q, want %q", c.permits, got.stdout, c.want)
		}
	}
	s.run("run", "-n", "--permits=1", "jobs", "--", "true").want(t, 75, "jobs")
	if got := s.run("resize", "--json", "jobs", "2"); got.stdout != `{"name":"jobs","before":1,"permits":2,"free":1}`+"\n" {
		t.Errorf("got %q", got.stdout)
	}
	s.run("run", "--permits=2", "jobs", "--", "true").want(t, 0)
}

func TestResizeUsage(t *testing.T) {
	s := newSite(t)
	s.hold("mutex")
	for args, want := range map[string]string{
		"": "a number", "jobs": "a number", "jobs 1 2": "a number", "jobs many": "use 1 to 2147483647", "jobs 0": "use 1 to 2147483647", "jobs 1.5": "use 1 to 2147483647",
		"{jobs} 2": `"jobs"`,
	} {
		s.run(append([]string{"resize"}, strings.Fields(args)...)...).want(t, 64, want)
	}
	s.run("resize", "mutex", "2").want(t, 64, `"mutex"`, "in use for something else")
	s.run("resize", "--layout", "plain", "jobs", "2").want(t, 125, "semaphores")
}
