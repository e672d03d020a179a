package faultproxy_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

func TestBlackholeLosesNothing(t *testing.T) {
	s, p := setUp(t)
	c := dial(t, p)
	c.send("SUBSCRIBE", "ch")
	c.want("*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	p.Blackhole(true)
	late := dial(t, p)
	late.send("INCR", "k")
	s.Do("PUBLISH", "ch", "m")
	c.wantSilence()
	late.wantSilence()
	if got := s.Keys(); len(got) != 0 {
		t.Fatalf("got keys %q, want none", got)
	}
	p.Blackhole(false)
	late.want(":1\r\n")
	c.want("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nm\r\n")
}

func TestCutAllInABlackhole(t *testing.T) {
	s, p := setUp(t)
	c := dial(t, p)
	c.send("INCR", "k")
	c.want(":1\r\n")
	p.Blackhole(true)
	c.send("INCR", "k")
	c.wantSilence()
	p.CutAll()
	_ = c.wantEnd()
	p.Blackhole(false)
	await.Until(t, limit, "the lost request is logged", func() bool { return len(p.Withheld()) == 1 })
	wantLog(t, p, faultproxy.Withheld{Command: []string{"INCR", "k"}})
	if got := s.Do("GET", "k"); got != any("1") {
		t.Fatalf("got %v, want 1", got)
	}
}

// underWay returns a connection whose request has reached a server that stands still.
func underWay(t *testing.T) (*redistest.Server, *faultproxy.Proxy, *client) {
	t.Helper()
	s, p := setUp(t)
	c := dial(t, p)
	c.send("GET", "k")
	c.want("$-1\r\n")
	s.Pause()
	c.send("INCR", "k")
	c.wantSilence()
	return s, p, c
}

func TestCutAllLogsTheReplyThatArrivesAfterwards(t *testing.T) {
	s, p, c := underWay(t)
	p.CutAll()
	_ = c.wantEnd()
	s.Resume()
	await.Until(t, limit, "the reply is logged", func() bool { return len(p.Withheld()) == 1 })
	wantLog(t, p, faultproxy.Withheld{Command: []string{"INCR", "k"}, Forwarded: true, Reply: ":1\r\n"})
}

func TestServerThatDies(t *testing.T) {
	s, p, c := underWay(t)
	s.Kill()
	_ = c.wantEnd()
	await.Until(t, limit, "the unanswered request is logged", func() bool { return len(p.Withheld()) == 1 })
	wantLog(t, p, faultproxy.Withheld{Command: []string{"INCR", "k"}, Forwarded: true})
	_ = dial(t, p).wantEnd() // accepted and closed
	s.Restart()
	c = dial(t, p)
	c.send("INCR", "k")
	c.want(":1\r\n")
}

func TestLatencyKeepsPipelines(t *testing.T) {
	_, p := setUp(t)
	c := dial(t, p)
	p.Latency(quiet)
	start := time.Now()
	for range 20 {
		c.send("INCR", "k")
	}
	for i := range 20 {
		c.want(":" + strconv.Itoa(i+1) + "\r\n")
	}
	if got := time.Since(start); got < quiet || got > 10*quiet {
		t.Fatalf("got 20 replies after %v, want one latency of %v", got, quiet)
	}
	p.Latency(0)
	quickest := time.Hour
	for i := range 20 {
		start = time.Now()
		c.send("INCR", "k")
		c.want(":" + strconv.Itoa(21+i) + "\r\n")
		quickest = min(quickest, time.Since(start))
	}
	if quickest >= quiet {
		t.Fatalf("got a reply after %v at best, want no more latency", quickest)
	}
}

func TestCloseEndsEverythingThatIsWithheld(t *testing.T) {
	s := redistest.Start(t)
	p, err := faultproxy.Run(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	held := p.On(faultproxy.Command("INCR"), faultproxy.HoldReply())
	delayed := p.On(faultproxy.Command("DECR"), faultproxy.DelayRequest(0))
	a, b, c := dial(t, p), dial(t, p), dial(t, p)
	a.send("INCR", "k")
	b.send("DECR", "k")
	held.Wait(t, 1)
	delayed.Wait(t, 1)
	p.Blackhole(true)
	c.send("GET", "k")
	p.Close()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if bytes.Contains(stacks, []byte("faultproxy.(*conn)")) || bytes.Contains(stacks, []byte("faultproxy.(*Proxy)")) {
		t.Fatalf("goroutines run on after Close:\n%s", stacks)
	}
	p.Close()
	for _, c := range []*client{a, b, c} {
		_ = c.wantEnd()
	}
	if err := p.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("got %v, want net.ErrClosed", err)
	}
}

func TestRulesMayChangeWhileClientsRun(t *testing.T) {
	s, p := setUp(t)
	const clients, each = 8, 200
	var wg sync.WaitGroup
	for range clients {
		c := dial(t, p)
		wg.Go(func() {
			for range each {
				if _, err := c.resp.Do("INCR", "k"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		r := p.On(incr, faultproxy.HoldReply())
		<-r.Fired()
		r.Release()
	}
	wg.Wait()
	if got := s.Do("GET", "k"); got != any(strconv.Itoa(clients*each)) {
		t.Fatalf("got %v, want %d", got, clients*each)
	}
}

// The protocol is passed on whole: two client libraries at work, INFO as a
// verbatim string, maps, pushes and subscriptions under RESP2 and RESP3.
func TestClientLibraries(t *testing.T) {
	_, p := setUp(t)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, protocol := range []int{2, 3} {
		c := redis.NewClient(&redis.Options{Addr: p.Addr(), Protocol: protocol})
		useGoRedis(ctx, t, c)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{p.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	useRueidis(ctx, t, c)
	if got := p.Withheld(); len(got) != 0 {
		t.Fatalf("got %+v withheld without a fault", got)
	}
}

func useGoRedis(ctx context.Context, t *testing.T, c *redis.Client) {
	t.Helper()
	if err := c.HSet(ctx, "h", "a", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.HGetAll(ctx, "h").Result(); err != nil || got["a"] != "1" {
		t.Fatalf("got %v, %v", got, err)
	}
	if err := c.Info(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	sub := c.Subscribe(ctx, "a", "b")
	defer func() { _ = sub.Close() }()
	for range 2 {
		if _, err := sub.Receive(ctx); err != nil {
			t.Fatal(err)
		}
	}
	c.Publish(ctx, "b", "hello")
	if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != "hello" {
		t.Fatalf("got %v, %v, want hello", m, err)
	}
	if err := sub.Unsubscribe(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := sub.Receive(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func useRueidis(ctx context.Context, t *testing.T, c rueidis.Client) {
	t.Helper()
	if err := c.Do(ctx, c.B().Info().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	sub, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	subscribed := make(chan struct{})
	go func() {
		hook := rueidis.WithOnSubscriptionHook(sub, func(s rueidis.PubSubSubscription) {
			if s.Kind == "subscribe" {
				close(subscribed)
			}
		})
		done <- c.Receive(hook, c.B().Subscribe().Channel("a").Build(), func(m rueidis.PubSubMessage) { got <- m.Message })
	}()
	<-subscribed
	if err := c.Do(ctx, c.B().Publish().Channel("a").Message("hello").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-got:
		if m != "hello" {
			t.Fatalf("got %q, want hello", m)
		}
	case <-ctx.Done():
		t.Fatal("the message did not arrive")
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	for range 100 { // client-side caching: invalidations are pushed among the replies
		if err := c.DoCache(ctx, c.B().Get().Key("k").Cache(), time.Minute).Error(); err != nil && !rueidis.IsRedisNil(err) {
			t.Fatal(err)
		}
		if err := c.Do(ctx, c.B().Incr().Key("k").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}
