package faultproxy_test

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
)

var incr = faultproxy.Command("incr")

// What each action does to a request and to those around it, to the end of the rule and
// after it; and that it does so to one request only.
func TestActions(t *testing.T) {
	lost := func(cmd ...string) faultproxy.Withheld { return faultproxy.Withheld{Command: cmd} }
	late := func(reply string, cmd ...string) faultproxy.Withheld {
		return faultproxy.Withheld{Command: cmd, Forwarded: true, Reply: reply}
	}
	changed := faultproxy.Rewrite(func(reply string) string { return strings.Replace(reply, ":", ":4", 1) })
	const all = "GET k;INCR k;SET behind x"
	for name, test := range map[string]struct {
		action   faultproxy.Action
		requests string
		replies  []string // before the release
		end      error    // of the connection; nil where it stays open
		executed any      // what k is before the release
		log      []faultproxy.Withheld
		released []string // replies after the release
	}{
		"drop":                {faultproxy.DropRequest(), all, []string{"$-1\r\n"}, nil, nil, []faultproxy.Withheld{lost("INCR", "k"), lost("SET", "behind")}, nil},
		"delay":               {faultproxy.DelayRequest(0), all, []string{"$-1\r\n"}, nil, nil, nil, []string{":1\r\n", "+OK\r\n"}},
		"cut":                 {faultproxy.Cut(), "INCR k", nil, io.EOF, nil, []faultproxy.Withheld{lost("INCR", "k")}, nil},
		"cut after execution": {faultproxy.CutAfterExecution(), all, []string{"$-1\r\n"}, io.EOF, "1", []faultproxy.Withheld{late(":1\r\n", "INCR", "k"), late("+OK\r\n", "SET", "behind")}, nil},
		"hold":                {faultproxy.HoldReply(), all, []string{"$-1\r\n"}, nil, "1", []faultproxy.Withheld{late(":1\r\n", "INCR", "k"), late("+OK\r\n", "SET", "behind")}, []string{":1\r\n", "+OK\r\n"}},
		"reset":               {faultproxy.ResetMidCommand(), "INCR k", nil, syscall.ECONNRESET, nil, []faultproxy.Withheld{lost("INCR", "k")}, nil},
		"reply":               {faultproxy.Reply("-LOADING\r\n"), "GET k;INCR k;GET k", []string{"$-1\r\n", "-LOADING\r\n", "$-1\r\n"}, nil, nil, nil, nil},
		"rewrite":             {changed, "INCR k;GET k", []string{":41\r\n", "$1\r\n1\r\n"}, nil, "1", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := setUp(t)
			r := p.On(incr, test.action)
			c, other := dial(t, p), dial(t, p)
			c.pipeline(strings.Split(test.requests, ";"))
			for _, want := range test.replies {
				c.want(want)
			}
			r.Wait(t, 1)
			if test.end == nil {
				c.wantSilence()
			} else if err := c.wantEnd(); errors.Is(test.end, syscall.ECONNRESET) && !errors.Is(err, test.end) {
				t.Errorf("got %v, want a reset", err)
			}
			await.Until(t, limit, "what is withheld is logged", func() bool { return len(p.Withheld()) == len(test.log) })
			wantLog(t, p, test.log...)
			if got := s.Do("GET", "k"); got != test.executed {
				t.Errorf("got %v executed, want %v", got, test.executed)
			}
			other.send("INCR", "other")
			other.want(":1\r\n")
			r.Release()
			r.Release()
			for _, want := range test.released {
				c.want(want)
			}
		})
	}
}

func TestDelayedRequestOutlivesItsClient(t *testing.T) {
	s, p := setUp(t)
	r := p.On(incr, faultproxy.DelayRequest(0))
	c := dial(t, p)
	c.send("INCR", "k")
	r.Wait(t, 1)
	_ = c.Close()
	if got := r.Answered(); got != 0 {
		t.Fatalf("got %d answered, want none before the release", got)
	}
	r.Release()
	await.Until(t, limit, "the zombie is executed", func() bool { return s.Do("GET", "k") == any("1") })
	await.Until(t, limit, "its answer is counted", func() bool { return r.Answered() == 1 })
}

func TestHangUpLosesNothingThatWasSent(t *testing.T) {
	s, p := setUp(t)
	r := p.On(incr, faultproxy.DelayRequest(0))
	c := dial(t, p)
	c.send("INCR", "k")
	c.send("SET", "behind", "x")
	r.Wait(t, 1)
	p.HangUpAll()
	_ = c.wantEnd()
	if got := s.Keys(); len(got) != 0 {
		t.Fatalf("got keys %q, want none before the release", got)
	}
	r.Release()
	await.Until(t, limit, "both are executed", func() bool { return s.Do("GET", "behind") == any("x") })
	await.Until(t, limit, "both are logged", func() bool { return len(p.Withheld()) == 2 })
	wantLog(t, p,
		faultproxy.Withheld{Command: []string{"INCR", "k"}, Forwarded: true, Reply: ":1\r\n"},
		faultproxy.Withheld{Command: []string{"SET", "behind", "x"}, Forwarded: true, Reply: "+OK\r\n"})
}

func TestDelayRequestForATime(t *testing.T) {
	_, p := setUp(t)
	p.On(incr, faultproxy.DelayRequest(quiet))
	c := dial(t, p)
	start := time.Now()
	c.send("INCR", "k")
	c.want(":1\r\n")
	if got := time.Since(start); got < quiet {
		t.Fatalf("got the reply after %v, want at least %v", got, quiet)
	}
}

// A script that the server does not know was not executed.
func TestCutAfterExecutionOfAScript(t *testing.T) {
	s, p := setUp(t)
	const source = "return redis.call('INCR', KEYS[1])"
	sum := sha1.Sum([]byte(source))
	sha := hex.EncodeToString(sum[:])
	r := p.On(faultproxy.Script(sha), faultproxy.CutAfterExecution())
	c := dial(t, p)
	c.send("EVALSHA", sha, "1", "k")
	c.want("-NOSCRIPT No matching script. Please use EVAL.\r\n")
	if got := r.Count(); got != 0 {
		t.Fatalf("got %d, want that it waits for a run", got)
	}
	c.send("EVAL", source, "1", "k")
	_ = c.wantEnd()
	r.Wait(t, 1)
	if got := s.Do("GET", "k"); got != any("1") {
		t.Fatalf("got %v, want 1: the script was to be executed", got)
	}
}

func TestCutAfterExecutionLeavesThePipeline(t *testing.T) {
	s, p := setUp(t)
	p.On(incr, faultproxy.CutAfterExecution())
	c := dial(t, p)
	const n = 50
	if _, err := c.Write([]byte(strings.Repeat("*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n", n))); err != nil {
		t.Fatal(err)
	}
	_ = c.wantEnd()
	await.Until(t, limit, "all replies are logged", func() bool { return len(p.Withheld()) == n })
	for i, w := range p.Withheld() {
		if want := ":" + strconv.Itoa(i+1) + "\r\n"; w.Reply != want || !w.Forwarded {
			t.Fatalf("reply %d: got %+v, want %q", i, w, want)
		}
	}
	await.Until(t, limit, "the server's side is closed", func() bool {
		return strings.Count(s.String("CLIENT", "LIST"), "\n") == 1
	})
}

func TestTwoHeldRepliesKeepTheirOrder(t *testing.T) {
	_, p := setUp(t)
	first := p.On(incr, faultproxy.HoldReply())
	second := p.On(incr, faultproxy.HoldReply())
	c := dial(t, p)
	c.send("INCR", "k")
	c.send("INCR", "k")
	second.Wait(t, 1)
	second.Release()
	c.send("INCR", "k")
	await.Until(t, limit, "what is behind the first is still withheld", func() bool { return len(p.Withheld()) == 3 })
	c.wantSilence()
	first.Release()
	for _, want := range []string{":1\r\n", ":2\r\n", ":3\r\n"} {
		c.want(want)
	}
}

func TestHeldConfirmationOfASubscription(t *testing.T) {
	s, p := setUp(t)
	r := p.On(faultproxy.Command("SUBSCRIBE"), faultproxy.HoldReply())
	c := dial(t, p)
	c.send("SUBSCRIBE", "a", "b")
	r.Wait(t, 1)
	s.Do("PUBLISH", "a", "hello")
	c.wantSilence()
	r.Release()
	c.want("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n")
	c.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n")
	c.want("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$5\r\nhello\r\n")
	if got := r.Count(); got != 1 {
		t.Fatalf("got %d, want 1 for one request with two confirmations", got)
	}
}

func TestWhichMatchesARuleFiresOn(t *testing.T) {
	_, p := setUp(t)
	r := p.On(incr, faultproxy.Reply("+x\r\n"), faultproxy.Times(2))
	always := p.On(incr, faultproxy.Reply("+y\r\n"), faultproxy.Always())
	c := dial(t, p)
	for _, want := range []string{"+x\r\n", "+x\r\n", "+y\r\n", "+y\r\n"} {
		c.send("INCR", "k")
		c.want(want)
	}
	<-r.Fired()
	always.Release()
	c.send("INCR", "k")
	c.want(":1\r\n")
}
