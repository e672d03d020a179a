package redishold

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/waiting"
)

// Constants of package waiting, and of all clients that share a layout.
const (
	takenMessage    = "2"
	repeatedMessage = "00"
	staggerStep     = time.Millisecond
	staggerMax      = 20 * time.Millisecond
	briefHold       = staggerStep
	lingerFor       = 10 * time.Millisecond
	rememberFor     = time.Second
	pollFirst       = time.Millisecond
	pollMost        = 128 * time.Millisecond
	subscribeAgain  = time.Second
	presence        = 4 * time.Second
)

// fakeConn is a Conn with the replies of a test. By default it grants, renews and releases
// everything.
type fakeConn struct {
	answer    func(Call) Result
	server    func(context.Context) (ServerInfo, error)
	subscribe func(context.Context, Channel) error
	silent    bool // it does not record what was sent
	late      bool // the first confirmation comes after Subscribe, from the test

	mu    sync.Mutex
	sent  [][]Call
	subs  []*fakeSub // in the order of Subscribe
	asked int
}

func (c *fakeConn) Do(_ context.Context, calls ...Call) []Result {
	c.mu.Lock()
	if !c.silent {
		c.sent = append(c.sent, copies(calls))
	}
	c.mu.Unlock()
	results := make([]Result, len(calls))
	for i, call := range calls {
		results[i] = c.reply(call)
	}
	return results
}

// copies returns copies of calls, which stay the same when the Backend reuses their slices.
func copies(calls []Call) []Call {
	calls = slices.Clone(calls)
	for i := range calls {
		calls[i].Keys, calls[i].Args = slices.Clone(calls[i].Keys), slices.Clone(calls[i].Args)
	}
	return calls
}

func granting(call Call) Result {
	name := call.Script.Name()
	if strings.HasSuffix(name, "_all") {
		var list []any
		for _, one := range unbundled(call) {
			list = append(list, granting(one).Value)
		}
		return Result{Value: once(list)}
	}
	switch name[strings.LastIndexByte(name, '_')+1:] { // <kind>_<operation>
	case "acquire":
		return Result{Value: int64(7)}
	case "renew", "register":
		return Result{Value: int64(1)}
	case "release", "abandon", "force":
		return Result{Value: int64(1)}
	case "explain":
		return Result{Value: []any{int64(0), "", "", int64(1)}}
	case "probe":
		return Result{Value: []any{int64(0)}}
	case "client":
		return Result{Value: []any{"", "0"}}
	default:
		return Result{Value: ""}
	}
}

// reply answers one call; one for several locks as if each were alone.
func (c *fakeConn) reply(call Call) (r Result) {
	if strings.HasSuffix(call.Script.Name(), "_all") {
		return c.replyAll(call)
	}
	if c.answer != nil {
		r = c.answer(call)
	}
	if r == (Result{}) {
		r = granting(call)
	}
	return r
}

func (c *fakeConn) replyAll(call Call) Result {
	var list []any
	for _, one := range unbundled(call) {
		r := c.reply(one)
		if reply, ok := r.Err.(*ReplyError); ok {
			r.Value = []any{int64(codeRefused), reply.Text}
		} else if r.Err != nil {
			return r
		}
		list = append(list, r.Value)
	}
	return Result{Value: once(list)}
}

// once returns the number of which the elements of the list are copies, as each.lua does, or the
// list.
func once(list []any) any {
	if _, ok := list[0].(int64); ok && !slices.ContainsFunc(list, func(v any) bool { return !reflect.DeepEqual(v, list[0]) }) {
		return list[0]
	}
	return list
}

// unbundled returns a call of its own for each lock of a call for several.
func unbundled(call Call) (ones []Call) {
	name, all := strings.CutSuffix(call.Script.Name(), "_all")
	if !all {
		return []Call{call}
	}
	perKey, own := 1, 1
	switch name {
	case "acquire":
		perKey = 3
	case "release":
		own = 2
	}
	n := len(call.Keys) / perKey
	for i := range n {
		ones = append(ones, Call{
			Script: NewScript(name, ""),
			Keys:   call.Keys[perKey*i : perKey*(i+1)],
			Args:   append(call.Args[own*i:own*(i+1):own*(i+1)], call.Args[own*n:]...),
		})
	}
	for i := range ones {
		ones[i].Replicas = call.Replicas
	}
	return ones
}

func (c *fakeConn) Server(ctx context.Context) (ServerInfo, error) {
	c.mu.Lock()
	c.asked++
	c.mu.Unlock()
	if c.server != nil {
		return c.server(ctx)
	}
	return ServerInfo{}, nil
}

func (c *fakeConn) Subscribe(ctx context.Context, ch Channel, notify func(Notice)) (Subscription, error) {
	s := &fakeSub{channel: ch, notify: notify}
	c.mu.Lock()
	c.subs = append(c.subs, s)
	c.mu.Unlock()
	if c.subscribe != nil {
		if err := c.subscribe(ctx, ch); err != nil {
			return nil, err
		}
	}
	if !c.late {
		notify(Notice{Subscribed: true})
	}
	return s, nil
}

// scripts returns the names of the scripts sent so far, in order; a script of
// several locks counts as one for each.
func (c *fakeConn) scripts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, calls := range c.sent {
		for _, call := range calls {
			for _, one := range unbundled(call) {
				names = append(names, one.Script.Name())
			}
		}
	}
	return names
}

func (c *fakeConn) count(script string) int {
	n := 0
	for _, name := range c.scripts() {
		if name == script {
			n++
		}
	}
	return n
}

// subscriptions returns all that were ever asked for.
func (c *fakeConn) subscriptions() []*fakeSub {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*fakeSub(nil), c.subs...)
}

type fakeSub struct {
	channel Channel
	notify  func(Notice)

	mu     sync.Mutex
	closed int
}

func (s *fakeSub) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
}

func (s *fakeSub) closes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// replying answers every call of script with value, and others by default.
func replying(script string, value any) func(Call) Result {
	return func(c Call) Result {
		if c.Script.Name() == script {
			return Result{Value: value}
		}
		return Result{}
	}
}

// failing answers every call of script with an error of the server.
func failing(script, text string) func(Call) Result {
	return func(c Call) Result {
		if c.Script.Name() == script {
			return Result{Err: &ReplyError{Text: text}}
		}
		return Result{}
	}
}

const testUUID = "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11"

func testClaim(name string) driver.Claim {
	return claimOf(driver.Claim{Name: name, TTL: 30e9, Count: 1, Tokens: 1, Note: "ci@host:4121"}, testUUID, 1)
}

// claimOf returns c as the claim of a client with that number.
func claimOf(c driver.Claim, client string, seq uint64) driver.Claim {
	c.Client, c.Seq, c.Owner = client, seq, client+":"+strconv.FormatUint(seq, 10)
	return c
}

func busyReply() any {
	return []any{int64(0), int64(20000), "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:57", "1"}
}

// topicOf returns the Key of the topic of c.
func topicOf(b *Backend, c driver.Claim) waiting.Key {
	return waiting.Key{Channel: b.forms.of(c).Channel(b.layout.Keys(c.Name), c), Client: c.Client}
}
