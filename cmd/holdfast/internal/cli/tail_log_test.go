//go:build unix

package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
)

// events is what tail has printed as JSON: event and name of each.
func events(t *testing.T, r result) string {
	t.Helper()
	var all []string
	for _, o := range objects(t, r) {
		text := fmt.Sprint(o["event"], " ", o["name"])
		if o["reported"] == true {
			text += "!"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestTailSince(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		s.run("tail", "--since", "1m", "--for", "100ms").want(t, 0, "the event log has no events of that time")
		s.run("run", "job", "--event-log", "--reason", "nightly", "--", "true").want(t, 0)
		s.run("run", "job", "--", "true").want(t, 0)
		s.run("run", "other", "--event-log", "--", "true").want(t, 0)
		got := s.run("tail", "--since", "1m", "--json", "--for", "100ms", "j*")
		if want := "acquired job!, released job!"; events(t, got) != want {
			t.Errorf("got %s, want %s", events(t, got), want)
		}
		if o := objects(t, got)[0]; !strings.Contains(fmt.Sprint(o["holder"]), "nightly") || o["token"] == nil || o["mode"] != "exclusive" || o["kind"] != "mutex" {
			t.Errorf("got %v, want who had what", o)
		}
		got = s.run("tail", "--since", "1m", "--count", "2")
		if lines := strings.Split(got.stdout, "\n"); len(lines) != 3 || !strings.Contains(lines[1], "released     job  by ") || !strings.Contains(lines[1], "held for") {
			t.Errorf("got %q", got.stdout)
		}
		got = s.run("tail", "--for", "300ms", "--every", "100ms")
		if strings.Contains(got.stdout, "job") {
			t.Errorf("got %q without --since", got.stdout)
		}
		s.run("tail", "--since", "-1s").want(t, 64, "--since -1s is negative")
	})
}

// Only the holder knows that it lost the lock. The forced unlock before is printed once, with
// its holder, although the command that forced it reports it and polling finds it.
func TestTailPrintsALoss(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		holder := begin(t, t.Context(), strings.NewReader(""), s.environ, "hold", "job", "--event-log", "--json", "--ttl", "5s", "--ignore-stdin")
		holder.ready()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		c := begin(t, ctx, strings.NewReader(""), s.environ, "tail", "--every", "100ms", "--scan", "0s", "job")
		c.ready()
		owner := objects(t, s.run("inspect", "job", "--json"))[0]["holds"].([]any)[0].(map[string]any)["owner"].(string)
		s.run("force-unlock", "job", "--event-log", "--reason", "stuck", "--yes", "--holder", owner).want(t, 0)
		holder.wait().want(t, 79, `holdfast: lock "job" lost: ended by force: stuck (`)
		await.Until(t, 20*time.Second, "tail says that it was lost", func() bool { return strings.Contains(c.stdout.String(), "lost") })
		end()
		events := map[string]int{}
		for line := range strings.Lines(c.wait().stdout) {
			events[strings.Fields(line)[1]]++
		}
		if got := fmt.Sprint(events); got != "map[forced:1 held:1 lost:1]" || !strings.Contains(c.stdout.String(), ", held for ") {
			t.Errorf("got %s in %s, want each once", got, c.stdout.String())
		}
		got := s.run("tail", "--since", "1m", "--for", "100ms")
		for _, want := range []string{"acquired     job", "lost         job", ": forced", "forced       job  taken from " + owner + ": stuck ("} {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("got %s, want %q", got.stdout, want)
			}
		}
	})
}

func TestEventLogOfTheConfiguration(t *testing.T) {
	s := newSite(t)
	file := configure(t, "holdfast.yaml", "url: "+s.url+"\nevent_log: {enabled: true}\n")
	s.environ = bare("HOLDFAST_CONFIG=" + file)
	s.run("run", "job", "--", "true").want(t, 0)
	s.run("run", "quiet", "--event-log=false", "--", "true").want(t, 0)
	got := s.run("tail", "--since", "1m", "--json", "--for", "100ms")
	if want := "acquired job!, released job!"; events(t, got) != want {
		t.Errorf("got %s, want %s", events(t, got), want)
	}
	call(t, s.environ, "run", "job", "--event-log", "--url", s.url, "--url", "redis://127.0.0.1:1", "--url", "redis://127.0.0.1:2", "--", "true").
		want(t, 64, "a lock on several servers has no event log")
}

func TestListOutput(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		s.holdOfEachKind()
		for args, begins := range map[string]string{
			"ls":                    "NAME",
			"ls --json --sort name": `{"version":1,"name":"a/mutex"`,
		} {
			got := s.run(strings.Fields(args)...)
			got.want(t, 0)
			if !strings.HasPrefix(got.stdout, begins) {
				t.Errorf("%s: got %q, want %q first", args, got.stdout, begins)
			}
		}
		if got := s.run("ls", "--wide"); !strings.Contains(got.stdout, "OWNER") {
			t.Errorf("got %q, want owners", got.stdout)
		}
		s.run("ls", "--json", "--watch", "1s").want(t, 64, "--watch")
	})
}
