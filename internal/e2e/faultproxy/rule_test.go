package faultproxy_test

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
)

var incr = faultproxy.Command("incr")

func TestDropRequest(t *testing.T) {
	s, p := setUp(t)
	r := p.On(incr, faultproxy.DropRequest())
	c, other := dial(t, p), dial(t, p)
	c.send("GET", "before")
	c.send("INCR", "k")
	c.send("SET", "behind", "1")
	c.want("$-1\r\n")
	c.wantSilence()
	r.Wait(t, 1)
	other.send("INCR", "k") // the rule is spent
	other.want(":1\r\n")
	if got := s.Keys(); len(got) != 1 {
		t.Fatalf("got keys %q, want only the other connection's", got)
	}
	wantLog(t, p,
		faultproxy.Withheld{Command: []string{"INCR", "k"}},
		faultproxy.Withheld{Command: []string{"SET", "behind"}})
}

func TestDelayRequestUntilReleased(t *testing.T) {
	s, p := setUp(t)
	r := p.On(incr, faultproxy.DelayRequest(0))
	c := dial(t, p)
	c.send("INCR", "k")
	r.Wait(t, 1)
	c.wantSilence()
	if got := s.Keys(); len(got) != 0 {
		t.Fatalf("got keys %q, want none before the release", got)
	}
	r.Release()
	r.Release()
	c.want(":1\r\n")
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

func TestCut(t *testing.T) {
	s, p := setUp(t)
	r := p.On(incr, faultproxy.Cut())
	c := dial(t, p)
	c.send("INCR", "k")
	_ = c.wantEnd()
	r.Wait(t, 1)
	wantLog(t, p, faultproxy.Withheld{Command: []string{"INCR", "k"}})
	if got := s.Keys(); len(got) != 0 {
		t.Fatalf("got keys %q, want none", got)
	}
}

func TestCutAfterExecution(t *testing.T) {
	s, p := setUp(t)
	r := p.On(incr, faultproxy.CutAfterExecution())
	c := dial(t, p)
	c.send("GET", "k")
	c.send("INCR", "k")
	c.want("$-1\r\n")
	_ = c.wantEnd()
	if got := s.Do("GET", "k"); got != any("1") {
		t.Fatalf("got %v, want 1: the request was to be executed", got)
	}
	r.Wait(t, 1)
	wantLog(t, p, faultproxy.Withheld{Command: []string{"INCR", "k"}, Forwarded: true, Reply: ":1\r\n"})
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

func TestHoldReply(t *testing.T) {
	s, p := setUp(t)
	r := p.On(incr, faultproxy.HoldReply())
	c, other := dial(t, p), dial(t, p)
	c.send("INCR", "k")
	c.send("SET", "behind", "1")
	r.Wait(t, 1)
	if got := s.Do("GET", "k"); got != any("1") {
		t.Fatalf("got %v, want 1: the rule fires when the request was executed", got)
	}
	other.send("INCR", "k")
	other.want(":2\r\n")
	await.Until(t, limit, "the reply behind is logged", func() bool { return len(p.Withheld()) == 2 })
	c.wantSilence()
	r.Release()
	c.want(":1\r\n")
	c.want("+OK\r\n")
	c.send("GET", "k")
	c.want("$1\r\n2\r\n")
	wantLog(t, p,
		faultproxy.Withheld{Command: []string{"INCR", "k"}, Forwarded: true, Reply: ":1\r\n"},
		faultproxy.Withheld{Command: []string{"SET", "behind"}, Forwarded: true, Reply: "+OK\r\n"})
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

func TestResetMidCommand(t *testing.T) {
	s, p := setUp(t)
	p.On(incr, faultproxy.ResetMidCommand())
	c := dial(t, p)
	c.send("INCR", "k")
	if err := c.wantEnd(); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("got %v, want a reset", err)
	}
	wantLog(t, p, faultproxy.Withheld{Command: []string{"INCR", "k"}})
	if got := s.Keys(); len(got) != 0 {
		t.Fatalf("got keys %q, want none", got)
	}
}

func TestReplyInPlaceOfTheServer(t *testing.T) {
	s, p := setUp(t)
	r := p.On(incr, faultproxy.Reply("-LOADING not yet\r\n"), faultproxy.Times(2))
	c := dial(t, p)
	c.send("GET", "k")
	c.send("INCR", "k")
	c.send("GET", "k")
	c.send("INCR", "k")
	c.send("INCR", "k")
	for _, want := range []string{"$-1\r\n", "-LOADING not yet\r\n", "$-1\r\n", "-LOADING not yet\r\n", ":1\r\n"} {
		c.want(want)
	}
	if got := r.Count(); got != 2 {
		t.Fatalf("got %d, want 2", got)
	}
	if got := s.CommandStats()["incr"]; got != 1 {
		t.Fatalf("got %d executed, want 1", got)
	}
}

func TestRewriteReply(t *testing.T) {
	_, p := setUp(t)
	p.On(faultproxy.Command("INFO"), faultproxy.Rewrite(func(reply string) string {
		return strings.Replace(reply, "redis_version:", "redis_VERSION:", 1)
	}), faultproxy.Always())
	c := dial(t, p)
	for range 2 {
		c.send("INFO", "server")
		got, err := c.resp.Read()
		if err != nil || !strings.Contains(got, "redis_VERSION:") {
			t.Fatalf("got %q, %v, want redis_VERSION", got, err)
		}
	}
}

func TestScriptMatchesBothWaysToRunIt(t *testing.T) {
	const source = "return 1"
	const sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
	m := faultproxy.Script(sha)
	for _, tc := range []struct {
		cmd  string
		want bool
	}{
		{"EVALSHA|" + sha + "|0", true},
		{"evalsha_ro|" + strings.ToUpper(sha) + "|0", true},
		{"EVAL|" + source + "|0", true},
		{"EVAL|return 2|0", false},
		{"EVALSHA|" + strings.Repeat("0", 40) + "|0", false},
		{"GET|" + source, false},
		{"EVAL", false},
	} {
		if got := m(strings.Split(tc.cmd, "|")); got != tc.want {
			t.Errorf("%q: got %v, want %v", tc.cmd, got, tc.want)
		}
	}
}

func TestWhichMatchesARuleFiresOn(t *testing.T) {
	_, p := setUp(t)
	r := p.On(incr, faultproxy.Reply("+x\r\n"), faultproxy.Nth(2), faultproxy.Times(2))
	always := p.On(incr, faultproxy.Reply("+y\r\n"), faultproxy.Always())
	c := dial(t, p)
	for i, want := range []string{"+y\r\n", "+x\r\n", "+x\r\n", "+y\r\n"} {
		if i == 1 {
			select {
			case <-r.Fired():
				t.Fatal("the rule fired on the first match")
			default:
			}
		}
		c.send("INCR", "k")
		c.want(want)
	}
	<-r.Fired()
	always.Release()
	c.send("INCR", "k")
	c.want(":1\r\n")
}
