package faultproxy

import (
	"crypto/sha1"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// waitLimit bounds Rule.Wait.
const waitLimit = 10 * time.Second

// Match selects requests by their parsed command: the name as the client spelled
// it, then the arguments. It is called from several goroutines at once and must
// not change its argument.
type Match func(cmd []string) bool

// Any matches every request, the handshake of a new connection included.
func Any(cmd []string) bool { return true }

// Command matches requests by the name of the command, in any case.
func Command(names ...string) Match {
	return func(cmd []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, cmd[0]) })
	}
}

// Except matches requests that another Match does not.
func Except(match Match) Match { return func(cmd []string) bool { return !match(cmd) } }

// Script matches each run of a Lua script: EVALSHA with its digest sha and EVAL
// with its source, with or without _RO.
func Script(sha string) Match {
	evalsha, eval := Command("EVALSHA", "EVALSHA_RO"), Command("EVAL", "EVAL_RO")
	return func(cmd []string) bool {
		switch {
		case len(cmd) < 2:
			return false
		case evalsha(cmd):
			return strings.EqualFold(cmd[1], sha)
		case eval(cmd):
			sum := sha1.Sum([]byte(cmd[1]))
			return strings.EqualFold(hex.EncodeToString(sum[:]), sha)
		default:
			return false
		}
	}
}

// Action is what a Rule does to a request that it fires on.
type Action struct {
	kind    kind
	delay   time.Duration
	reply   func(cmd []string) string
	rewrite func(string) string
}

type kind uint8

const (
	drop kind = iota
	delay
	cutBefore
	cutAfter
	hold
	reset
	answer
	rewrite
)

// DropRequest never forwards the request and never answers it; the connection
// stays open. As on a real link nothing passes a lost piece of the stream: the
// later requests of that connection are not forwarded either. Replies to earlier
// ones still arrive.
func DropRequest() Action { return Action{kind: drop} }

// DelayRequest forwards the request, and those behind it on that connection,
// after d or when the rule is released; d of 0 means only when it is released.
// It is forwarded even if the client has closed the connection by then, as a
// request that was under way would be.
func DelayRequest(d time.Duration) Action { return Action{kind: delay, delay: d} }

// Cut closes both sides of the connection at once; the request is not forwarded.
func Cut() Action { return Action{kind: cutBefore} }

// CutAfterExecution forwards the request, reads the reply, throws it away and
// closes the client's connection: a lost reply. Requests that the client had
// pipelined behind it are still executed, and their replies lost as well. A request
// that is answered NOSCRIPT was not executed: the rule waits for the next.
func CutAfterExecution() Action { return Action{kind: cutAfter} }

// HoldReply forwards the request and withholds the reply until the rule is
// released, and behind it, in order, all that follows on that connection. A request
// that is answered NOSCRIPT was not executed: the rule waits for the next.
func HoldReply() Action { return Action{kind: hold} }

// ResetMidCommand forwards the first half of the request's bytes and resets both
// sides of the connection.
func ResetMidCommand() Action { return Action{kind: reset} }

// Reply answers raw ("-LOADING busy\r\n") in the server's place; the request is
// not forwarded.
func Reply(raw string) Action {
	return Action{kind: answer, reply: func([]string) string { return raw }}
}

// Unknown answers as a server or a proxy does that does not have the command; the request
// is not forwarded.
func Unknown() Action {
	return Action{kind: answer, reply: func(cmd []string) string { return "-ERR unknown command '" + cmd[0] + "'\r\n" }}
}

// Rewrite changes the server's raw reply. The result has to be a whole RESP
// value; f is responsible for its lengths.
func Rewrite(f func(reply string) string) Action { return Action{kind: rewrite, rewrite: f} }

// When says on which of the matching requests a rule fires, in place of the
// first.
type When func(*Rule)

// Times makes a rule fire on k matching requests in a row.
func Times(k int) When { return func(r *Rule) { r.left = k } }

// Always makes a rule fire on every matching request until it is released.
func Always() When { return Times(math.MaxInt) }

// Rule is one fault that was asked for. Its methods may be called from several
// goroutines at once.
type Rule struct {
	match  Match
	action Action

	released chan struct{}
	first    chan struct{} // closed when it has fired

	mu       sync.Mutex
	left     int // matches still to fire on
	fired    int
	answered int
	change   chan struct{} // closed and replaced each time it fires
	over     bool          // released
}

func newRule(match Match, action Action, when []When) *Rule {
	r := &Rule{
		match: match, action: action, left: 1,
		released: make(chan struct{}), first: make(chan struct{}), change: make(chan struct{}),
	}
	for _, w := range when {
		w(r)
	}
	return r
}

// Count returns how often the rule has fired: how many replies were withheld,
// lost or changed, or how many requests were dropped, delayed, cut or answered.
func (r *Rule) Count() int {
	n, _ := r.state()
	return n
}

// Answered returns how many of the requests that the rule has fired on, or is
// about to, the server has answered, whether or not the client was still there.
func (r *Rule) Answered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered
}

// Fired returns a channel that is closed when the rule has fired once. With
// HoldReply and CutAfterExecution the server has executed the request by then.
func (r *Rule) Fired() <-chan struct{} { return r.first }

// Wait returns when the rule has fired n times. After 10 s it fails t.
func (r *Rule) Wait(t testing.TB, n int) {
	t.Helper()
	timeout := time.NewTimer(waitLimit)
	defer timeout.Stop()
	for {
		fired, change := r.state()
		if fired >= n {
			return
		}
		select {
		case <-change:
		case <-timeout.C:
			t.Fatalf("rule fired %d times within %v, want %d", fired, waitLimit, n)
			return
		}
	}
}

// Release ends the rule: it lets go of what it withholds or delays and fires no
// more. It may be called more than once.
func (r *Rule) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.over = true
		close(r.released)
	}
}

// claim reports whether the rule fires on cmd.
func (r *Rule) claim(cmd []string) bool {
	if !r.match(cmd) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.left == 0 {
		return false
	}
	r.left--
	return true
}

// giveBack undoes a claim.
func (r *Rule) giveBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left++
}

func (r *Rule) fire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fired++
	if r.fired == 1 {
		close(r.first)
	}
	close(r.change)
	r.change = make(chan struct{})
}

func (r *Rule) answer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered++
}

func (r *Rule) state() (fired int, change <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fired, r.change
}
