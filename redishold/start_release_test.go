package redishold

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

// beginConn is a fakeConn that is a Beginner and a ListenerCounter.
type beginConn struct {
	fakeConn
	begun   int
	pending []func() // run before the answer
}

func (c *beginConn) Begin(ctx context.Context, call *Call) func() Result {
	c.begun++
	sent := copies([]Call{*call})[0]
	return func() Result {
		for _, f := range c.pending {
			f()
		}
		return c.Do(ctx, sent)[0]
	}
}

func (c *beginConn) Listeners(ch Channel) (n int) {
	for _, s := range c.subscriptions() {
		if s.channel == ch && s.closes() == 0 {
			n++
		}
	}
	return n
}

func TestStartReleaseSendsAtOnce(t *testing.T) {
	conn := &beginConn{}
	b := New(conn, nil)
	c := testClaim("orders")
	mustTry(t, b, c)
	finish := b.StartRelease(t.Context(), c)
	if conn.begun != 1 {
		t.Fatalf("got %d calls begun before finish, want 1", conn.begun)
	}
	if others, err := finish(); others != 0 || err != nil {
		t.Fatalf("got %d others and error %v, want 0 and none", others, err)
	}
	if got := conn.count("release"); got != 1 {
		t.Fatalf("got %d releases, want 1", got)
	}
}

// Many at once, which share what they are kept in.
func TestStartReleaseKeepsThemApart(t *testing.T) {
	conn := &beginConn{}
	b := New(conn, nil)
	names := []string{"a", "b", "c", "d"}
	for range 3 {
		conn.sent = nil
		var finish []func() (int, error)
		for _, name := range names {
			c := testClaim(name)
			mustTry(t, b, c)
			finish = append(finish, b.StartRelease(t.Context(), c))
		}
		conn.sent = nil
		for i := range finish {
			if _, err := finish[i](); err != nil {
				t.Fatal(err)
			}
			if got := conn.sent[i][0].Keys[0]; got != names[i] {
				t.Fatalf("release %d: got key %q, want %q", i, got, names[i])
			}
		}
	}
}

func TestStartReleaseOthers(t *testing.T) {
	indeterminate := testClaim("orders")
	indeterminate.Indeterminate = true
	for _, c := range []struct {
		name   string
		reply  int64
		claim  driver.Claim
		opts   Options
		server ServerInfo
		listen bool
		beside int  // how many other Lockers of the same Conn listen
		alone  bool // each of them has a Backend of its own
		deaf   bool
		want   int
	}{
		{name: "nobody", reply: 1, claim: testClaim("orders"), want: 0},
		{name: "others", reply: 4, claim: testClaim("orders"), want: 3},
		{name: "others and this one", reply: 4, claim: testClaim("orders"), listen: true, want: 2},
		{name: "this one is not heard", reply: 1, claim: testClaim("orders"), listen: true, want: 0},
		{name: "not published", reply: -1, claim: testClaim("orders"), want: -1},
		{name: "cluster", reply: 4, claim: testClaim("orders"), server: ServerInfo{Cluster: true}, want: 3},
		{name: "cluster, nobody at this node", reply: 1, claim: testClaim("orders"), server: ServerInfo{Cluster: true}, want: -1},
		{name: "cluster, this one only", reply: 2, claim: testClaim("orders"), server: ServerInfo{Cluster: true, ShardedPS: true}, listen: true, want: -1},
		{name: "poll", reply: 4, claim: testClaim("orders"), opts: Options{Poll: 1}, want: -1},
		{name: "fair", reply: 4, claim: fairTestClaim("orders"), want: -1},
		{name: "write", reply: 4, claim: testWriter("orders"), want: -1},
		{name: "permit", reply: 4, claim: fuzzClaim(4, "orders"), listen: true, want: 2},
		{name: "plain", reply: 4, claim: testClaim("orders"), opts: Options{Layout: Plain}, listen: true, want: 2},
		{name: "another of this Conn", reply: 2, claim: testClaim("orders"), beside: 1, want: 1},
		{name: "two others of this Conn", reply: 2, claim: testClaim("orders"), beside: 2, want: 2},
		{name: "two others of this Conn, and this one", reply: 2, claim: testClaim("orders"), listen: true, beside: 2, want: 2},
		{name: "others of this Conn and of others", reply: 4, claim: testClaim("orders"), listen: true, beside: 2, want: 4},
		{name: "others of this Conn, with Backends of their own", reply: 2, claim: testClaim("orders"), listen: true, beside: 2, alone: true, want: 2},
		{name: "others of this Conn are not heard", reply: 1, claim: testClaim("orders"), listen: true, beside: 2, want: 0},
		{name: "others of this Conn, in a cluster", reply: 2, claim: testClaim("orders"), server: ServerInfo{Cluster: true, ShardedPS: true}, listen: true, beside: 2, want: 2},
		{name: "others of this Conn, for a permit", reply: 2, claim: fuzzClaim(4, "orders"), listen: true, beside: 2, want: 2},
		{name: "others of this Conn, plain", reply: 2, claim: testClaim("orders"), opts: Options{Layout: Plain}, listen: true, beside: 2, want: 2},
		{name: "deaf", reply: 4, claim: testClaim("orders"), deaf: true, want: -1},
		{name: "indeterminate", reply: 4, claim: indeterminate, want: -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := &beginConn{}
				conn.server = func(context.Context) (ServerInfo, error) { return c.server, nil }
				b := New(conn, &c.opts)
				conn.answer = replying(b.forms.of(c.claim).Release(kinds.Buffers{}, layout.Keys{}, c.claim, nil).Script.Name(), c.reply)
				held := c.claim
				held.Indeterminate = false
				mustTry(t, b, held)
				b.cannotListen.Store(c.deaf)
				if c.listen {
					defer listenFor(t, b, c.claim).Close()
				}
				for i := range c.beside {
					store := b
					if c.alone {
						store = New(conn, &c.opts)
					}
					defer listenFor(t, store, claimOf(c.claim, fmt.Sprintf("%.35s%d", testUUID, i+2), 1)).Close()
				}
				others, err := b.StartRelease(t.Context(), c.claim)()
				if others != c.want || err != nil {
					t.Fatalf("got %d and error %v, want %d", others, err, c.want)
				}
				mustTry(t, b, held)
				b.beginner = nil
				if others, err := b.StartRelease(t.Context(), c.claim)(); others != c.want || err != nil {
					t.Fatalf("by finish: got %d and error %v, want %d", others, err, c.want)
				}
			})
		})
	}
}

// listenFor returns a Waiter whose subscription is confirmed.
func listenFor(t *testing.T, b *Backend, c driver.Claim) driver.Waiter {
	t.Helper()
	w := b.Waiter(c)
	if _, err := w.Wait(t.Context(), driver.Outcome{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// A Locker of the same Conn that receives the release may have the lock, and listen no more, when
// the answer to the release comes.
func TestStartReleaseOthersThatHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &beginConn{}
		conn.answer = replying("release", int64(2))
		b := New(conn, nil)
		c := testClaim("orders")
		mustTry(t, b, c)
		defer listenFor(t, b, c).Close()
		other := listenFor(t, b, claimOf(c, testUUID[:35]+"2", 1))
		conn.pending = append(conn.pending, other.Close)
		if others, err := b.StartRelease(t.Context(), c)(); others != 1 || err != nil {
			t.Fatalf("got %d and error %v, want 1", others, err)
		}
	})
}

// A Conn that does not count its listeners has one.
func TestStartReleaseOthersWithoutACount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: replying("release", int64(2))}
		b := New(conn, nil)
		c := testClaim("orders")
		mustTry(t, b, c)
		defer listenFor(t, b, c).Close()
		defer listenFor(t, b, claimOf(c, testUUID[:35]+"2", 1)).Close()
		if others, err := b.StartRelease(t.Context(), c)(); others != 0 || err != nil {
			t.Fatalf("got %d and error %v, want 0", others, err)
		}
	})
}

// It is unknown whether this process is one of the receivers if its subscription began or ended
// while the release was in flight.
func TestStartReleaseOthersWhileListeningBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &beginConn{}
		conn.answer = replying("release", int64(4))
		b := New(conn, nil)
		c := testClaim("orders")
		mustTry(t, b, c)
		w := b.Waiter(c)
		defer w.Close()
		conn.pending = append(conn.pending, func() {
			if _, err := w.Wait(t.Context(), driver.Outcome{}); err != nil {
				t.Error(err)
			}
		})
		if others, err := b.StartRelease(t.Context(), c)(); others != -1 || err != nil {
			t.Fatalf("got %d and error %v, want -1", others, err)
		}
	})
}

// While this process is subscribing, it may be one of the receivers.
func TestStartReleaseOthersBeforeItListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &beginConn{}
		conn.answer = replying("release", int64(4))
		conn.subscribe = func(ctx context.Context, _ Channel) error {
			<-ctx.Done()
			return ctx.Err()
		}
		b := New(conn, nil)
		c := testClaim("orders")
		mustTry(t, b, c)
		w := b.Waiter(c)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer w.Close()
			_, _ = w.Wait(ctx, driver.Outcome{})
		}()
		synctest.Wait() // it subscribes
		if others, err := b.StartRelease(t.Context(), c)(); others != -1 || err != nil {
			t.Fatalf("got %d and error %v, want -1", others, err)
		}
		cancel()
	})
}

// A release is used again for another one, and remembers nothing of the first.
func TestStartReleaseOthersOfTheNext(t *testing.T) {
	conn := &beginConn{}
	conn.answer = replying("release", int64(4))
	b := New(conn, nil)
	c := testClaim("orders")
	for i := range 40 { // the race detector has a pool drop some
		want := 3
		if i%2 == 1 {
			want = -1
		}
		b.cannotListen.Store(i%2 == 1)
		mustTry(t, b, c)
		if others, err := b.StartRelease(t.Context(), c)(); others != want || err != nil {
			t.Fatalf("release %d: got %d and error %v, want %d", i, others, err, want)
		}
	}
}

func TestStartReleaseOfWhatIsGone(t *testing.T) {
	conn := &beginConn{}
	conn.answer = replying("release", int64(0))
	b := New(conn, nil)
	c := testClaim("orders")
	mustTry(t, b, c)
	if others, err := b.StartRelease(t.Context(), c)(); others != -1 || !errors.Is(err, driver.ErrGone) {
		t.Fatalf("got %d and error %v, want -1 and ErrGone", others, err)
	}
	conn.answer = failing("release", "LOADING Redis is loading the dataset in memory")
	if others, err := b.StartRelease(t.Context(), c)(); others != -1 || !errors.Is(err, driver.ErrNotExecuted) {
		t.Fatalf("got %d and error %v, want -1 and ErrNotExecuted", others, err)
	}
}

// A Conn may go on to read a call that it did not answer: its slices are not used
// again.
func TestUnansweredCallsAreLeftAlone(t *testing.T) {
	cut := errors.New("reset by peer")
	var seen []*Call
	conn := &keepingConn{answer: func(call *Call) Result {
		seen = append(seen, call)
		return Result{Err: cut}
	}}
	b := New(conn, nil)
	b.server.known.Store(&ServerInfo{})
	first, second := testClaim("first"), testClaim("second")
	if r := b.doRegistering(t.Context(), ServerInfo{}, nil, first); len(r) != 0 {
		t.Fatalf("got %v for no call", r)
	}
	b.server.pass("")
	do := []func(driver.Claim) error{
		func(c driver.Claim) error { _, err := b.Try(t.Context(), c); return err },
		func(c driver.Claim) error { return b.Release(t.Context(), c) },
		func(c driver.Claim) error { _, err := b.StartRelease(t.Context(), c)(); return err },
	}
	for _, f := range do {
		if err := f(first); !errors.Is(err, cut) {
			t.Fatalf("got error %v, want %v", err, cut)
		}
	}
	for range 3 {
		for _, f := range do {
			_ = f(second)
		}
	}
	if len(seen) != 12 {
		t.Fatalf("got %d calls, want 12", len(seen))
	}
	for i, call := range seen[:3] {
		if call.Keys[0] != "first" {
			t.Errorf("call %d: its key is now %q", i, call.Keys[0])
		}
	}
}

// keepingConn hands the calls themselves to answer.
type keepingConn struct {
	fakeConn
	answer func(*Call) Result
}

func (c *keepingConn) DoOne(_ context.Context, call *Call) Result { return c.answer(call) }

func (c *keepingConn) Begin(_ context.Context, call *Call) func() Result {
	return func() Result { return c.answer(call) }
}
