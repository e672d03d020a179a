package scripttest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// startCluster starts a cluster of one server. deploytest has clusters of any server
// and of many.
func startCluster(t *testing.T) *redistest.Server {
	t.Helper()
	redistest.Needs(t, redistest.ShardedChannels) // tests hear both kinds of channels
	server := redistest.Start(t, redistest.Conf("cluster-enabled yes"))
	server.String("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	await.Until(t, 10*time.Second, "the cluster is up", func() bool {
		return strings.Contains(server.String("CLUSTER", "INFO"), "cluster_state:ok")
	})
	return server
}

// Every kind of lock and layout, with and without a prefix, has its keys in the slot of
// its name, and publishes there.
func TestRedisholdInACluster(t *testing.T) {
	server := startCluster(t)
	conn := connect(t, server.Addr(), "", "")
	all, mutex := []string{"mutex", "fair", "write", "read", "permit"}, []string{"mutex"}
	wantHeard := map[string][]string{
		"redisson_lock__channel:{t1}:orders": {"0"},
		"redisson_rwlock:{t1}:orders":        {"1", "0", "0"}, // a writer's end, and the last reader's
		"redisson_sc:{t1}:orders":            {"1"},
		"holdfast:free::{t1}:orders":         {"0"},
	}
	heard := map[string]*redistest.Listener{}
	for channel := range wantHeard {
		heard[channel] = server.ListenSharded(channel)
	}
	for _, c := range []struct {
		opts  redishold.Options
		kinds []string
	}{
		{redishold.Options{}, all},
		{redishold.Options{KeyPrefix: "app:"}, all},
		{redishold.Options{KeyPrefix: "{app}:"}, all},
		{redishold.Options{Layout: redishold.Plain}, mutex},
		{redishold.Options{Layout: redishold.Timestamp}, mutex},
		{redishold.Options{Layout: redishold.Timestamp, KeyPrefix: "app:"}, mutex},
		{redishold.Options{Layout: redishold.Timestamp, KeyPrefix: "{app}:"}, mutex},
		{redishold.Options{SharedTokens: true}, mutex},
		{redishold.Options{SharedTokens: true, KeyPrefix: "app:"}, mutex},
	} {
		b := redishold.New(conn, &c.opts)
		for _, kind := range c.kinds {
			for _, name := range []string{"orders", "{t1}:orders", "a{b}c{d", "日本"} {
				t.Run(fmt.Sprintf("%s %s%s/%s/%s", c.opts.Layout, c.opts.KeyPrefix, map[bool]string{true: "shared tokens"}[c.opts.SharedTokens], kind, name), func(t *testing.T) {
					server.String("FLUSHALL") // marks of owners given up
					useByTwo(t, b, kind, name)
					for _, key := range server.Keys() {
						if strings.Contains(key, "queue") || strings.Contains(key, "fair") {
							t.Errorf("%q stays", key)
						}
					}
				})
			}
		}
	}
	sharded := server.ListenSharded(startChannel)
	useCounters(t, redishold.New(conn, nil), jobs, "{t1}:jobs")
	if got := sharded.Wait(2); got[0].Payload != "1" || got[1].Payload != "0" {
		t.Errorf("sharded channel of a latch: got %v, want 1 and 0", got)
	}
	wantRefusedInACluster(t, conn)
	for channel, want := range wantHeard {
		var got []string
		for _, m := range heard[channel].Wait(len(want)) {
			got = append(got, m.Payload)
		}
		if !slices.Equal(got[:len(want)], want) {
			t.Errorf("%s: got %q, want %q", channel, got, want)
		}
	}
}

// useByTwo has one claim hold a lock, and another wait for it and give up.
func useByTwo(t *testing.T, b *redishold.Backend, kind, name string) {
	t.Helper()
	one, two := kindClaim(kind, name, "1"), kindClaim(kind, name, "2")
	mustGrant(t, b, one)
	holders := 1
	if kind == "read" {
		mustGrant(t, b, two)
		mustRefuse(t, b, writer(name, "3")) // makes a second call, with the timeout keys
		holders = 2
	} else {
		mustRefuse(t, b, two)
	}
	if got := mustLook(t, b, name); len(got) != holders {
		t.Fatalf("got %+v, want %d holders", got, holders)
	}
	mustRenewOn(t, b, one)
	mustRelease(t, b, one)
	mustRenewAsGone(t, b, one) // looks up why
	two.Indeterminate = true
	err := b.Release(bounded(t), two)
	if held := kind == "read" || kind == "fair"; held && err != nil || !held && !errors.Is(err, driver.ErrGone) {
		t.Fatalf("Release of the other: got %v", err)
	}
}

func wantRefusedInACluster(t *testing.T, conn redishold.Conn) {
	t.Helper()
	for _, prefix := range []string{"", "app:", "{app}:"} {
		b := redishold.New(conn, &redishold.Options{KeyPrefix: prefix})
		for _, name := range []string{"a{b", "{}z", "a}b{c}"} {
			_, err := b.Try(bounded(t), claim(name, "1"))
			if prefix == "{app}:" && err == nil {
				continue // the prefix's tag decides
			}
			if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || strings.Contains(err.Error(), "CROSSSLOT") {
				t.Errorf("prefix %q, name %q: got %v, want our own refusal", prefix, name, err)
			}
		}
	}
	b := redishold.New(conn, nil)
	_, err := b.SetCount(bounded(t), "{t1}:start", "set", 1)
	if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), "braces") {
		t.Errorf("a latch with braces: got %v, want our own refusal", err)
	}
}

// useCounters opens a latch, and uses semaphores of these names.
func useCounters(t *testing.T, b *redishold.Backend, semaphores ...string) {
	t.Helper()
	if set, err := b.SetCount(bounded(t), start, "set", 1); err != nil || !set {
		t.Fatalf("SetCount: got %v and error %v", set, err)
	}
	if err := b.CountDown(bounded(t), start, "down"); err != nil {
		t.Fatalf("CountDown: %v", err)
	}
	if n, err := b.Count(bounded(t), start); err != nil || n != 0 {
		t.Fatalf("Count: got %d and error %v, want 0", n, err)
	}
	for _, name := range semaphores {
		s := b.PlainSemaphore(name)
		if err := s.Release(bounded(t), 1); err != nil {
			t.Fatalf("%q: Release: %v", name, err)
		}
		if taken, err := s.TryAcquire(bounded(t), 1); err != nil || !taken {
			t.Fatalf("%q: TryAcquire: got %v and error %v", name, taken, err)
		}
	}
}
