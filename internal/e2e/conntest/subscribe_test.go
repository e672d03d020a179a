package conntest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// ear collects notices.
type ear struct {
	t       testing.TB
	notices chan redishold.Notice
}

func newEar(t testing.TB) *ear {
	return &ear{t, make(chan redishold.Notice, 10000)}
}

func (a *ear) notify(n redishold.Notice) { a.notices <- n }

func (a *ear) next() redishold.Notice {
	a.t.Helper()
	select {
	case n := <-a.notices:
		return n
	case <-time.After(10 * time.Second):
		a.t.Fatal("no notice within 10 s")
		return redishold.Notice{}
	}
}

func (a *ear) confirmed() {
	a.t.Helper()
	if n := a.next(); n != (redishold.Notice{Subscribed: true}) {
		a.t.Fatalf("got notice %+v, want a confirmation", n)
	}
}

func (a *ear) message(want string) {
	a.t.Helper()
	if n := a.next(); n != (redishold.Notice{Payload: want}) {
		a.t.Fatalf("got notice %+v, want message %q", n, want)
	}
}

func (a *ear) silent() {
	a.t.Helper()
	select {
	case n := <-a.notices:
		a.t.Fatalf("got notice %+v, want none", n)
	default:
	}
}

// listen subscribes and takes the first confirmation.
func (e *env) listen(name string) (*ear, redishold.Subscription) {
	e.Helper()
	a := newEar(e)
	sub, err := e.conn.Subscribe(await.Context(e, 5*time.Second), redishold.Channel{Name: name}, a.notify)
	if err != nil {
		e.Fatalf("subscribe to %s: %v", name, err)
	}
	a.confirmed()
	return a, sub
}

// eventually waits until what got returns is want.
func eventually[T comparable](e *env, what string, got func() T, want T) {
	e.Helper()
	ctx := await.Context(e, 10*time.Second)
	for got() != want {
		if ctx.Err() != nil {
			e.Fatalf("%s: got %v, want %v", what, got(), want)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (e *env) channels() int { return len(e.server.Strings("PUBSUB", "CHANNELS")) }

func (e *env) subscribers() int {
	return strings.Count(e.server.String("CLIENT", "LIST", "TYPE", "pubsub"), "\n")
}

func TestMessagesInOrder(t *testing.T) {
	each(t, func(e *env) {
		a, sub := e.listen("c")
		for i := range 500 {
			e.server.Do("PUBLISH", "c", fmt.Sprint(i))
		}
		for i := range 500 {
			a.message(fmt.Sprint(i))
		}
		sub.Close()
	})
}

func TestShardedChannel(t *testing.T) {
	redistest.Needs(t, redistest.ShardedChannels)
	each(t, func(e *env) {
		a, b := newEar(e), newEar(e)
		sharded, err := e.conn.Subscribe(await.Context(e, 5*time.Second), redishold.Channel{Name: "c", Sharded: true}, a.notify)
		if err != nil {
			e.Fatal(err)
		}
		classic, err := e.conn.Subscribe(await.Context(e, 5*time.Second), redishold.Channel{Name: "c"}, b.notify)
		if err != nil {
			e.Fatal(err)
		}
		a.confirmed()
		b.confirmed()
		e.server.Do("PUBLISH", "c", "classic")
		e.server.Do("SPUBLISH", "c", "sharded")
		a.message("sharded")
		b.message("classic")
		a.silent()
		b.silent()
		sharded.Close()
		classic.Close()
		eventually(e, "subscribers", e.subscribers, 0)
	})
}

func TestOneConnectionForAllChannels(t *testing.T) {
	each(t, func(e *env) {
		var wg sync.WaitGroup
		subs := make([]redishold.Subscription, 200)
		ears := make([]*ear, len(subs))
		for i := range subs {
			wg.Go(func() {
				ears[i] = newEar(e)
				var err error
				subs[i], err = e.conn.Subscribe(await.Context(e, 5*time.Second), redishold.Channel{Name: fmt.Sprint(i)}, ears[i].notify)
				if err != nil {
					e.Error(err)
				}
			})
		}
		wg.Wait()
		if e.Failed() {
			return
		}
		if got := e.subscribers(); got != 1 {
			e.Errorf("got %d connections, want 1", got)
		}
		for i, a := range ears {
			e.server.Do("PUBLISH", fmt.Sprint(i), "m")
			a.confirmed()
			a.message("m")
		}
		for _, sub := range subs[1:] {
			sub.Close()
		}
		eventually(e, "channels", e.channels, 1)
		e.server.Do("PUBLISH", "0", "last")
		ears[0].message("last")
		ears[1].silent()
		subs[0].Close()
		eventually(e, "subscribers", e.subscribers, 0)
	})
}

func TestTwoListenersOfOneChannel(t *testing.T) {
	each(t, func(e *env) {
		a, subA := e.listen("c")
		b, subB := e.listen("c")
		e.server.Do("PUBLISH", "c", "both")
		a.message("both")
		b.message("both")
		subA.Close()
		e.server.Do("PUBLISH", "c", "one")
		b.message("one")
		a.silent()
		subB.Close()
		subB.Close() // is harmless
		eventually(e, "channels", e.channels, 0)
	})
}

// A Conn counts the listeners that share its connection, of which the server knows nothing.
func TestListenersAreCounted(t *testing.T) {
	each(t, func(e *env) {
		counter := e.conn.(redishold.ListenerCounter)
		wantListeners := func(want int) {
			e.Helper()
			if got := counter.Listeners(redishold.Channel{Name: "c"}); got != want {
				e.Errorf("got %d listeners, want %d", got, want)
			}
		}
		wantListeners(0)
		a, subA := e.listen("c")
		b, subB := e.listen("c")
		_, other := e.listen("d")
		wantListeners(2)
		if got := e.server.Do("PUBLISH", "c", "both"); got != any(int64(1)) {
			e.Errorf("the server counts %v receivers, want 1", got)
		}
		a.message("both")
		b.message("both")
		if got := counter.Listeners(redishold.Channel{Name: "c", Sharded: true}); got != 0 {
			e.Errorf("got %d listeners of the sharded channel, want 0", got)
		}
		subA.Close()
		wantListeners(1)
		e.server.KillPubSub()
		b.confirmed()
		wantListeners(1)
		subB.Close()
		wantListeners(0)
		other.Close()
	})
}

func TestNothingAfterClose(t *testing.T) {
	each(t, func(e *env) {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					e.server.Do("PUBLISH", "c", "m")
				}
			}
		})
		for range 50 {
			a, sub := e.listen("c")
			sub.Close()
			for len(a.notices) > 0 {
				a.next()
			}
			time.Sleep(time.Millisecond)
			a.silent()
		}
		close(stop)
		wg.Wait()
	})
}

func TestKilledConnectionIsRestored(t *testing.T) {
	each(t, func(e *env) {
		a, subA := e.listen("a")
		b, subB := e.listen("b")
		// It is running while the connection is killed, for 0.1 s on a quiet machine: rueidis
		// gives up a server that does not answer for 2 s.
		slow := call("local n = 0; for i = 1, 5e6 do n = n + i end; return 1")
		result := make(chan redishold.Result, 1)
		ctx := await.Context(e, 20*time.Second)
		go func() { result <- e.conn.Do(ctx, slow)[0] }()
		for range 3 {
			if got := e.server.KillPubSub(); got == 0 {
				e.Fatal("there was no connection to kill")
			}
			a.confirmed()
			b.confirmed()
			e.server.Do("PUBLISH", "a", "1")
			e.server.Do("PUBLISH", "b", "2")
			a.message("1")
			b.message("2")
		}
		if r := <-result; r.Err != nil {
			e.Errorf("a running command: got error %v", r.Err)
		}
		subA.Close()
		subB.Close()
		eventually(e, "subscribers", e.subscribers, 0)
	})
}

func TestRestartedServerIsSubscribedAgain(t *testing.T) {
	each(t, func(e *env) {
		a, sub := e.listen("c")
		e.server.Kill()
		if s, err := e.conn.Subscribe(await.Context(e, 10*time.Second), redishold.Channel{Name: "other"}, a.notify); err == nil {
			s.Close()
			e.Error("subscribed without a server")
		}
		e.server.Restart()
		a.confirmed()
		e.server.Do("PUBLISH", "c", "m")
		a.message("m")
		sub.Close()
	})
}

func TestSilentConnectionIsReplaced(t *testing.T) {
	for _, s := range subjects() {
		if s.name == "rueidis/New" {
			continue // with its defaults it takes 10 s
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := faultproxy.Start(t, server.Addr())
			conn, closeConn, err := s.open(login{addr: proxy.Addr()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(closeConn)
			e := &env{T: t, server: server, proxy: proxy, conn: conn}
			a, sub := e.listen("c")
			defer sub.Close()
			when := faultproxy.Times(1)
			if s.name == "rueidis/Open" {
				when = faultproxy.Always() // its other connection sends PING as well
			}
			proxy.On(faultproxy.Command("PING"), faultproxy.DropRequest(), when)
			start := await.NewWatch(t)
			a.confirmed()
			if took := start.Took(); took > 7*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// The client gives up a link that has been silent for half a second and does not answer
// a PING within 1.5 s. Without that it would keep the link for ten seconds.
func TestDeadLinkIsReplacedSoon(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	conn, closeConn, err := openRueidis(login{addr: proxy.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn()
	for range 2 {
		dead := proxy.On(faultproxy.Any, faultproxy.DropRequest(), faultproxy.Times(1))
		start, queued := time.Now(), judge.Queued(os.Getpid())
		await.Until(t, 30*time.Second, "an answer", func() bool {
			return conn.Do(await.Context(t, 250*time.Millisecond), call("return 1"))[0].Err == nil
		})
		if took := time.Since(start) - (judge.Queued(os.Getpid()) - queued); took > 5*time.Second {
			t.Errorf("took %v, without the time that it waited for a processor", took)
		}
		dead.Release()
	}
}

// A server that stands still for a while is as silent as one that runs a slow
// script. No script is slow on every server and ends: the time stands still within
// one from Redis 7.2 on.
func TestSlowAnswerIsNoDeadLink(t *testing.T) {
	const slow = 1200 * time.Millisecond
	each(t, func(e *env) {
		start := time.Now()
		e.server.Pause()
		answer := make(chan redishold.Result, 1)
		go func() { answer <- e.conn.Do(await.Context(e, 5*time.Second), call("return 1"))[0] }()
		time.Sleep(slow)
		e.server.Resume()
		if r := <-answer; r.Err != nil {
			e.Errorf("got error %v", r.Err)
		}
		if took := time.Since(start); took < slow/2 {
			e.Errorf("answered after %v, want a slow answer", took)
		}
	})
}

func TestForbiddenChannel(t *testing.T) {
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "limited", "on", ">pw", "~*", "resetchannels", "&allowed*", "+@all")
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) {
			conn, closeConn, err := s.open(login{server.Addr(), "limited", "pw"})
			if err != nil {
				t.Fatal(err)
			}
			e := &env{T: t, server: server, conn: conn}
			a, sub := e.listen("allowed1")
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					if i%2 == 0 {
						_, err := conn.Subscribe(await.Context(t, 5*time.Second), redishold.Channel{Name: fmt.Sprint("forbidden", i)}, a.notify)
						if !strings.HasPrefix(replyText(err), "NOPERM") {
							t.Errorf("forbidden channel: got error %v, want a ReplyError with NOPERM", err)
						}
						return
					}
					sub, err := conn.Subscribe(await.Context(t, 5*time.Second), redishold.Channel{Name: fmt.Sprint("allowed", i)}, func(redishold.Notice) {})
					if err != nil {
						t.Errorf("allowed channel: got error %v", err)
						return
					}
					sub.Close()
				})
			}
			wg.Wait()
			server.Do("PUBLISH", "allowed1", "m")
			a.message("m")
			sub.Close()
			eventually(e, "subscribers", e.subscribers, 0)
			closeConn()
		})
	}
}

func TestLastCloseLeavesNothing(t *testing.T) {
	each(t, func(e *env) {
		before := goleak.IgnoreCurrent()
		clients := func() int { return strings.Count(e.server.String("CLIENT", "LIST"), "\n") }
		idle := clients()
		for range 5 {
			_, a := e.listen("a")
			_, b := e.listen("b")
			a.Close()
			b.Close()
		}
		eventually(e, "channels", e.channels, 0)
		eventually(e, "subscribers", e.subscribers, 0)
		eventually(e, "connections", clients, idle)
		// Another adapter's test may run beside, and begin and end meanwhile.
		eventually(e, "goroutines left", func() bool { return goleak.Find(before) != nil }, false)
	})
}

// A process that wants a lock again and again has no waiter for a moment. The connection for
// messages outlives that, and serves the next subscription.
func TestConnectionOutlivesAPause(t *testing.T) {
	each(t, func(e *env) {
		const rounds = 20
		connections := func() int {
			e.Helper()
			_, rest, _ := strings.Cut(e.server.String("INFO", "stats"), "total_connections_received:")
			text, _, _ := strings.Cut(rest, "\r")
			n, err := strconv.Atoi(text)
			if err != nil {
				e.Fatal(err)
			}
			return n
		}
		_, sub := e.listen("c")
		before := connections()
		for range rounds {
			sub.Close()
			var a *ear
			a, sub = e.listen("c")
			e.server.Do("PUBLISH", "c", "hello")
			a.message("hello")
			a.silent()
		}
		// Each command of the test makes a connection of its own. A busy machine may pause for longer
		// than the connection for messages lives.
		const ours = rounds + 1
		if made := connections() - before - ours; made > rounds/2 {
			e.Errorf("made %d connections for %d subscriptions, one after the other", made, rounds)
		}
		sub.Close()
		eventually(e, "subscribers", e.subscribers, 0)
	})
}

// A connection that stays open does not stay subscribed to channels without listeners.
func TestUnusedChannelIsUnsubscribed(t *testing.T) {
	each(t, func(e *env) {
		listener, keep := e.listen("keep")
		_, sub := e.listen("c")
		sub.Close()
		eventually(e, "channels", e.channels, 1)
		e.server.Do("PUBLISH", "keep", "hello")
		listener.message("hello")
		keep.Close()
	})
}

// A server may refuse to end a subscription. A server that cannot save refuses the PING that rueidis
// sends after each UNSUBSCRIBE: without a PING of the adapter before, rueidis panics when the
// connection ends. The missing right to PING keeps nobody from unsubscribing.
func TestUnsubscribeIsRefused(t *testing.T) {
	each(t, func(e *env) {
		right := func(rule string) { e.server.Do("ACL", "SETUSER", "default", rule) }
		unsubscribed := func() bool { return e.channels() == 1 }
		rejected := func() bool {
			return strings.Contains(e.server.String("INFO", "commandstats"), "rejected_calls=1,")
		}
		for _, test := range []struct {
			name           string
			refuse, permit func()
			ended          func() bool
		}{
			{"no right to PING", func() { right("-ping") }, func() { right("+ping") }, unsubscribed},
			{"no right to UNSUBSCRIBE", func() { right("-unsubscribe") }, func() { right("+unsubscribe") }, rejected},
			{"cannot save", e.server.FailSaves, e.server.RepairSaves, func() bool { return unsubscribed() || rejected() }},
		} {
			listener, keep := e.listen("keep")
			_, sub := e.listen("c")
			e.server.Do("CONFIG", "RESETSTAT")
			test.refuse()
			sub.Close()
			eventually(e, test.name, test.ended, true)
			again, sub := e.listen("c")
			e.server.Do("PUBLISH", "c", test.name)
			again.message(test.name)
			e.server.Do("PUBLISH", "keep", test.name)
			listener.message(test.name)
			sub.Close()
			keep.Close()
			eventually(e, test.name+": subscribers", e.subscribers, 0)
			test.permit()
		}
	})
}

func TestGivenUpSubscriptionLeavesNothing(t *testing.T) {
	each(t, func(e *env) {
		hold := e.proxy.On(faultproxy.Command("SUBSCRIBE"), faultproxy.HoldReply(), faultproxy.Always())
		a := newEar(e)
		_, err := e.conn.Subscribe(await.Context(e, 100*time.Millisecond), redishold.Channel{Name: "c"}, a.notify)
		if err != context.DeadlineExceeded {
			e.Errorf("got error %v, want DeadlineExceeded", err)
		}
		hold.Release()
		eventually(e, "channels", e.channels, 0)
		eventually(e, "subscribers", e.subscribers, 0)
		a.silent()
	})
}
