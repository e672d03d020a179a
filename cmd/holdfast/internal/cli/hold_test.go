//go:build unix

package cli

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
)

func TestHoldUntilInputEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		in, out := io.Pipe()
		c := begin(t, t.Context(), in, s.environ, "hold", "job", "--reason", "maintenance", "--label", "team=db", "--label", "ci=7")
		c.ready()
		s.run("status", "-q", "job").want(t, 75)
		s.run("run", "-n", "job", "true").want(t, 75, "(maintenance) team=db ci=7")
		out.Close()
		got := c.wait()
		got.want(t, 0)
		if !strings.HasPrefix(got.stdout, `held "job", token `) || !strings.HasSuffix(got.stdout, "released \"job\": standard input was closed\n") {
			t.Errorf("got %q", got.stdout)
		}
		s.run("status", "-q", "job").want(t, 0)
	})
}

func TestHoldForAWhile(t *testing.T) {
	s := newSite(t)
	in, out := io.Pipe()
	defer out.Close()
	got := begin(t, t.Context(), in, s.environ, "hold", "--json", "job", "--for", "100ms").wait()
	got.want(t, 0)
	o := objects(t, got)
	if len(o) != 2 || o[0]["event"] != "held" || o[1]["event"] != "released" || o[0]["token"] == 0.0 {
		t.Errorf("got %v", o)
	}
	s.mustBeFree("job")
}

func TestHoldLost(t *testing.T) {
	s := newSite(t)
	in, out := io.Pipe()
	defer out.Close()
	c := begin(t, t.Context(), in, s.environ, "hold", "-t", "300ms", "job")
	c.ready()
	s.server.Del("job")
	c.wait().want(t, 79, `lock "job" lost`)
}

func TestHoldEndsWithASignal(t *testing.T) {
	s := newSite(t)
	p := s.start(nil, "hold", "job")
	p.await("held")
	p.signal(syscall.SIGTSTP)
	p.await("so it continues")
	p.signal(syscall.SIGUSR1)
	p.signal(syscall.SIGINT)
	p.await("released")
	if got := p.status(); got != 0 {
		t.Errorf("got status %d, want 0", got)
	}
	s.mustBeFree("job")
}

func TestHoldUsage(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	for args, want := range map[string]string{
		"":                          "the name of one lock",
		"a b":                       "the name of one lock",
		"--for -1s a":               "negative",
		"--shared --fair a":         "different kinds",
		"--permits -1 a":            "negative",
		"--permits 0 a":             "1 or more",
		"--permits 0 --fair a":      "1 or more",
		"-t 1ms a":                  "too short",
		"--layout rediss a":         "redisson, plain or timestamp",
		"--replicas many a":         "a number, or all",
		"--config /no/such/file a":  "/no/such/file",
		"--exclusive --permits 2 a": "different kinds",
		"-n -w 1s a":                "give only one of them",
		"--label x a":               "key=value",
		"--layout plain --fair a":   "",
		"--layout plain --unknown":  "--unknown",
	} {
		if want != "" {
			s.run(append([]string{"hold"}, strings.Fields(args)...)...).want(t, 64, want)
		}
	}
	s.run("hold", "-n", "job").want(t, 75, "is held by")
	s.run("hold", "-n", "-E", "5", "job").want(t, 5, "is held by")
	s.run("hold", "--layout", "plain", "--fair", "a").want(t, 125, "redis with the layout plain has no fair locks")
}

// Kinds of lock as the command line has them keep each other out, or do not.
func TestRunKinds(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		for _, test := range []struct {
			held, tried string
			code        int
		}{
			{"--shared", "--shared", 0},
			{"--shared", "--exclusive", 75},
			{"--exclusive", "--shared", 75},
			{"--permits=2", "--permits=2", 0},
			{"--permits=1", "--permits=1", 75},
			{"--fair", "--fair", 75},
			{"--ttl=20s", "--ttl=20s", 75},
			{"--shared", "--ttl=20s", 64}, // not that kind of lock
			{"--layout=plain", "--layout=plain", 75},
		} {
			name := "lock" + test.held + test.tried
			in, out := io.Pipe()
			c := begin(t, t.Context(), in, s.environ, "hold", test.held, name)
			c.ready()
			if got := s.run("run", "-n", test.tried, name, "true"); got.code != test.code {
				t.Errorf("%s beside %s: got status %d, want %d: %s", test.tried, test.held, got.code, test.code, got.stderr)
			}
			out.Close()
			c.wait().want(t, 0)
		}
	})
}

func TestRunSaysThatItWaits(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	c := begin(t, t.Context(), strings.NewReader(""), s.environ, "run", "job", "true")
	await.Until(t, 20*time.Second, "run says that it waits", func() bool { return strings.Contains(c.stderr.String(), "waiting for lock") })
	s.server.Del("job")
	c.wait().want(t, 0, `holdfast: waiting for lock "job": held, lease ends in `, "; by ", "ci-runner-7@build:4121", `holdfast: got lock "job" after `)
	s.hold("other")
	s.run("run", "--skip-ok", "-w", "1500ms", "other", "true").want(t, 0)
}

func TestElectOnce(t *testing.T) {
	s := newSite(t)
	s.run("elect", "--once", "job", "--", "sh", "-c", "exit 3").want(t, 3)
	got := s.run("elect", "--once", "job", "--", "sh", "-c", "echo $HOLDFAST_NAME")
	if got.code != 0 || got.stdout != "job\n" {
		t.Errorf("got %+v", got)
	}
	s.run("elect", "job", "no-such-command-anywhere").want(t, 127, "no-such-command-anywhere")
	s.run("elect", "job").want(t, 64, "no command")
	s.run("elect", "--backoff", "2m", "job", "true").want(t, 64, "--backoff")
	s.run("elect", "--nonblock", "job", "true").want(t, 64, "--nonblock")
	s.mustBeFree("job")
}

func TestElectCampaignsAgain(t *testing.T) {
	s := newSite(t)
	terms := filepath.Join(t.TempDir(), "terms")
	p := s.start(nil, "elect", "--backoff", "10ms", "-t", "3s", "job", "--", "sh", "-c",
		fmt.Sprintf(`echo term >>%s; case $(wc -l <%[1]s) in 1) exit 3;; 2) exit 0;; *) echo leading; exec sleep 100;; esac`, terms))
	p.await("ended with status 3")
	p.await("ended with status 0")
	p.await("leading")
	s.server.Del("job") // and the leader learns of it
	p.await("lost: the key is gone from the server")
	p.await("the term is over")
	p.await("leading")
	p.signal(syscall.SIGTERM)
	if got := p.status(); got != 128+15 {
		t.Errorf("got status %d, want that of the command", got)
	}
	if text, _ := os.ReadFile(terms); strings.Count(string(text), "term") != 4 {
		t.Errorf("got %q, want 4 terms", text)
	}
	s.mustBeFree("job")
}

// A leader that an operator asks to step down stops its command, and the other candidate leads when
// the command has ended.
func TestElectStepsDown(t *testing.T) {
	s := newSite(t)
	log := filepath.Join(t.TempDir(), "log")
	command := `say() { echo "$1" >>` + log + `; echo "$1"; }; trap 'sleep 0.2; say stopped; exit 7' TERM; say leading; while :; do sleep 0.01; done`
	elect := []string{"elect", "--backoff", "1s", "--step-down-on", "USR1", "-t", "3s", "job", "--", "sh", "-c", command}
	first := s.start(nil, elect...)
	first.await("leading")
	second := s.start(nil, elect...)
	second.await("waiting for lock")
	second.signal(syscall.SIGUSR1) // a candidate stays one
	first.signal(syscall.SIGUSR1)
	first.await("asked to step down; stopping the command")
	first.await("ended with status 7")
	second.await("leading")
	first.signal(syscall.SIGTERM) // in its pause, or as a candidate
	if got := first.status(); got != 128+15 {
		t.Errorf("the first: got status %d, want 143", got)
	}
	second.signal(syscall.SIGTERM)
	if got := second.status(); got != 7 {
		t.Errorf("the second: got status %d, want that of its command", got)
	}
	if text, _ := os.ReadFile(log); string(text) != "leading\nstopped\nleading\nstopped\n" {
		t.Errorf("the commands wrote %q, want one after the other", text)
	}
	s.run("elect", "--step-down-on", "TERM", "job", "true").want(t, 64, "--step-down-on TERM: use USR1 or USR2")
	s.mustBeFree("job")
}

func TestElectCandidateEndsWithASignal(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	before := s.server.Dump()
	p := s.start(nil, "elect", "-v", "job", "--", "echo", "ran")
	p.await("asking for lock")
	p.signal(syscall.SIGTERM)
	if got := p.status(); got != 128+15 {
		t.Errorf("got status %d, want %d", got, 128+15)
	}
	if slices.Contains(strings.Fields(p.rest), "ran") {
		t.Errorf("the command ran without the lock: %s", p.rest)
	}
	if after := s.server.Dump(); lockOf(after) != lockOf(before) {
		t.Errorf("got %s, want only the holder's lock: %s", after, before)
	}
}

// holderListens reports whether a client of the server listens for what is said to it.
func (s *site) holderListens() bool {
	s.t.Helper()
	scheme, addr, _ := strings.Cut(s.url, "://")
	conn, err := net.Dial(map[string]string{"unix": "unix", "redis": "tcp"}[scheme], addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(conn, "*3\r\n$6\r\nPUBSUB\r\n$8\r\nCHANNELS\r\n$18\r\n*holdfast:client:*\r\n")
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || answer[0] != '*' {
		s.t.Fatalf("PUBSUB CHANNELS: got %q, error %v", answer, err)
	}
	return answer != "*0\r\n"
}

// The holder of a lock by the command hears at once that it was broken, and not at
// the next renewal, which is ten seconds away.
func TestHoldHearsOfForceUnlock(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		in, out := io.Pipe()
		defer out.Close()
		c := begin(t, t.Context(), in, s.environ, "hold", "job")
		c.ready()
		// It listens when the hold is some seconds old.
		await.Until(t, 30*time.Second, "the holder listens", s.holderListens)
		owner := objects(t, s.run("inspect", "--json", "job"))[0]["holds"].([]any)[0].(map[string]any)["owner"].(string)
		start := await.NewWatch(t)
		s.run("force-unlock", "job", "--reason", "INC-1", "--yes", "--holder", owner).want(t, 0)
		c.wait().want(t, 79, "INC-1")
		if took := start.Took(); took > 3*time.Second {
			t.Errorf("the holder heard after %v", took)
		}
	})
}
