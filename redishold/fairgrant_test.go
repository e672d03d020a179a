package redishold

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
)

const (
	fairShared = "redisson_lock__channel:{orders}:" + testUUID
	fairAlive  = int64(1795220382903)
)

func fairNumber(n int) driver.Claim {
	return claimOf(fairTestClaim("orders"), testUUID, uint64(n))
}

// queueConn answers each fair try with "queued", so many strangers before it, and
// knows the holder as a client of Holdfast's, or not.
func queueConn(strangers int64, known bool) *fakeConn {
	conn := &fakeConn{}
	conn.answer = func(c Call) Result {
		switch {
		case c.Script.Name() == "fair_acquire":
			return Result{Value: []any{int64(0), int64(20000), "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:57", "1", fairAlive, strangers}}
		case c.Script.Name() == "client" && known:
			return Result{Value: []any{`{"note":"somebody"}`, "1763768514123"}}
		}
		return Result{}
	}
	return conn
}

func queuedTry(t *testing.T, b *Backend, c driver.Claim) driver.Outcome {
	t.Helper()
	o, err := b.Try(t.Context(), c)
	if err != nil || o.Granted {
		t.Fatalf("Try: got %+v and error %v, want busy", o, err)
	}
	return o
}

func wantGranted(t *testing.T, w driver.Waiter, token uint64) {
	t.Helper()
	o := w.(interface{ Granted() driver.Outcome }).Granted()
	if o.Granted != (token > 0) || o.Token != token {
		t.Fatalf("granted: got %+v, want token %d", o, token)
	}
	if o.Granted && o.ValidFor != presence {
		t.Fatalf("granted: got %+v, want it for %v", o, presence)
	}
}

func granted(token uint64, alive int64, c driver.Claim) Notice {
	return grantedOf(c.Name, token, alive, c)
}

// grantedOf is the message that the lock of that key was given to c.
func grantedOf(lock string, token uint64, alive int64, c driver.Claim) Notice {
	return Notice{Payload: fmt.Sprintf("%d:%d:%d:%d:%s:%s", token, alive, presence.Milliseconds(), len(lock), lock, c.Owner)}
}

// channelsOf are the channels that were subscribed, in no order.
func channelsOf(conn *fakeConn) map[string]int {
	channels := map[string]int{}
	for _, s := range conn.subscriptions() {
		channels[s.channel.Name]++
	}
	return channels
}

func TestFairWaitersShareAChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := queueConn(0, true)
		b := New(conn, nil)
		one, two := fairNumber(1), fairNumber(2)
		queuedTry(t, b, one)
		synctest.Wait() // the first try has looked up the holder, which is a client of Holdfast
		w1, w2 := b.Waiter(one), b.Waiter(two)
		defer w1.Close()
		wantReturned(t, begin(t.Context(), w1, queuedTry(t, b, one)), "before any subscription")
		wait1 := begin(t.Context(), w1, queuedTry(t, b, one))
		wantWaiting(t, wait1, "with a fresh outcome")

		// The second needs no second Try: the channel was there before its first.
		wait2 := begin(t.Context(), w2, queuedTry(t, b, two))
		wantWaiting(t, wait2, "of another owner")
		if got := channelsOf(conn); len(got) != 1 || got[fairShared] != 1 {
			t.Fatalf("subscribed %v, want %s once", got, fairShared)
		}
		sub := conn.subscriptions()[0]
		sub.notify(granted(5, fairAlive, two))
		wantReturned(t, wait2, "after its message")
		wantGranted(t, w2, 5)
		wantWaiting(t, wait1, "after the message of another")
		wantGranted(t, w1, 0)
		w2.Close()
		w2.Close()
		wantGranted(t, w2, 0)
		if sub.closes() != 0 {
			t.Fatal("closed while a waiter was left")
		}
		sub.notify(Notice{Payload: "0:0:" + one.Owner})
		wantReturned(t, wait1, "after a wake-up")
		wantGranted(t, w1, 0)
		for _, all := range []Notice{{Subscribed: true}, {Payload: "0"}, {Payload: "5:0:" + two.Owner}} {
			wait1 = begin(t.Context(), w1, queuedTry(t, b, one))
			wantWaiting(t, wait1, "with a fresh outcome")
			sub.notify(all)
			wantReturned(t, wait1, "after "+all.Payload)
			wantGranted(t, w1, 0)
		}
		w1.Close()
		if sub.closes() != 1 {
			t.Fatal("not closed after the last waiter")
		}
	})
}

// A message may arrive before the answer to the Try that it follows, and twice.
func TestFairGrantBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := queueConn(0, true)
		b := New(conn, nil)
		other, c := fairNumber(1), fairNumber(2)
		queuedTry(t, b, other)
		synctest.Wait() // the first try has looked up the holder, so that a waiter needs one channel
		first := b.Waiter(other)
		defer first.Close()
		wantReturned(t, begin(t.Context(), first, queuedTry(t, b, other)), "before any subscription")
		sub := conn.subscriptions()[0]
		answer := conn.answer
		conn.answer = func(call Call) Result {
			if call.Script.Name() == "fair_acquire" {
				sub.notify(granted(5, fairAlive, c))
				sub.notify(granted(5, fairAlive, c))
			}
			return answer(call)
		}
		last := queuedTry(t, b, c)
		w := b.Waiter(c)
		defer w.Close()
		wantReturned(t, begin(t.Context(), w, last), "after a message since the Try")
		wantGranted(t, w, 5)
	})
}

// A grant that names another time was made before the last Try, or not of it; one that names
// another lock is of that. It does no more than wake.
func TestFairGrantOfSomethingElseIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := queueConn(0, true)
		b := New(conn, nil)
		c := fairNumber(1)
		queuedTry(t, b, c)
		synctest.Wait() // the first try has looked up the holder, so that a waiter needs one channel
		w := b.Waiter(c)
		defer w.Close()
		wantReturned(t, begin(t.Context(), w, queuedTry(t, b, c)), "before any subscription")
		for _, other := range []Notice{
			granted(1, fairAlive-1, c), granted(2, fairAlive+1, c), granted(3, 1, c),
			grantedOf("{orders}", 5, fairAlive, c), grantedOf("app:orders", 5, fairAlive, c),
			grantedOf("Orders", 5, fairAlive, c), grantedOf("", 5, fairAlive, c),
		} {
			last := queuedTry(t, b, c)
			conn.subscriptions()[0].notify(other)
			wantReturned(t, begin(t.Context(), w, last), "after "+other.Payload)
			wantGranted(t, w, 0)
		}
		conn.subscriptions()[0].notify(granted(7, fairAlive, c))
		wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "with no outcome")
		wantGranted(t, w, 0)
	})
}

// If a Redisson client may be before it, a waiter listens on the channel on which Redisson would
// wake it.
func TestFairWaiterHearsRedisson(t *testing.T) {
	for name, conn := range map[string]*fakeConn{"in the queue": queueConn(1, true), "as the holder": queueConn(0, false)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New(conn, nil)
				c := fairNumber(1)
				w := b.Waiter(c)
				wantReturned(t, begin(t.Context(), w, queuedTry(t, b, c)), "before any subscription")
				wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "subscribed")
				own := "redisson_lock__channel:{orders}:" + c.Owner
				if got := channelsOf(conn); len(got) != 2 || got[fairShared] != 1 || got[own] != 1 {
					t.Fatalf("subscribed %v, want %s and %s", got, fairShared, own)
				}
				for _, s := range conn.subscriptions() {
					waiting := begin(t.Context(), w, queuedTry(t, b, c))
					wantWaiting(t, waiting, "with a fresh outcome")
					payload := "0"
					if s.channel.Name == fairShared {
						payload = granted(5, fairAlive, c).Payload
					}
					s.notify(Notice{Payload: payload})
					wantReturned(t, waiting, "after a message on "+s.channel.Name)
				}
				w.Close()
				for _, s := range conn.subscriptions() {
					if s.closes() != 1 {
						t.Errorf("%s: closed %d times, want once", s.channel.Name, s.closes())
					}
				}
			})
		})
	}
}

// Its own subscription begins with its first wait also where that returns at once, as the
// other one is there already.
func TestFairWaiterHearsRedissonBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := queueConn(1, true)
		b := New(conn, nil)
		for n := range 2 {
			c := fairNumber(n + 1)
			w := b.Waiter(c)
			defer w.Close()
			wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "with no outcome")
			synctest.Wait()
			own := "redisson_lock__channel:{orders}:" + c.Owner
			if got := channelsOf(conn); got[fairShared] != 1 || got[own] != 1 {
				t.Fatalf("waiter %d: subscribed %v, want %s and %s", n+1, got, fairShared, own)
			}
		}
	})
}

// A release would not do all that these ask for.
func TestFairClaimsThatAreNotGrantedByARelease(t *testing.T) {
	with := func(change func(*driver.Claim)) driver.Claim {
		c := fairNumber(1)
		change(&c)
		return c
	}
	for name, test := range map[string]struct {
		opts *Options
		c    driver.Claim
		want time.Duration
	}{
		"the usual":     {nil, fairNumber(1), presence},
		"a short TTL":   {nil, with(func(c *driver.Claim) { c.TTL = time.Second }), time.Second},
		"replicas":      {&Options{Replicas: 1}, fairNumber(1), 0},
		"tokens":        {nil, with(func(c *driver.Claim) { c.Tokens = 2 }), 0},
		"holds":         {nil, with(func(c *driver.Claim) { c.Count = 2 }), 0},
		"indeterminate": {nil, with(func(c *driver.Claim) { c.Indeterminate = true }), 0},
	} {
		b := New(queueConn(0, true), test.opts)
		if got := b.forms.fair.Grantable(test.c); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	for replicas, want := range map[int]string{0: "4000", 1: "0", AllReplicas: "0"} {
		b := New(&fakeConn{}, &Options{Replicas: replicas})
		c := fairNumber(1)
		if got := b.forms.of(c).Release(kinds.Buffers{}, b.layout.Keys(c.Name), c, nil).Args[3]; got != want {
			t.Errorf("%d replicas: a release gives the lock for %s ms, want %s", replicas, got, want)
		}
	}
}
