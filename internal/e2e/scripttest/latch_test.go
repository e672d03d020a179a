package scripttest

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// The scripts of latches, each by itself on a real server, and the engine over
// them.

const (
	start        = "start"
	startChannel = "redisson_countdownlatch__channel__{start}"
)

func latchKeys(call string) []string { return []string{start, "holdfast:call:{start}:" + call} }

func TestLatchScripts(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	count := func(want int64) {
		t.Helper()
		b.want(list(n(1), n(want)), "latch_count", latchKeys("")[:1])
	}
	set := func(want, receivers int64, call string, to int) {
		t.Helper()
		b.want(list(n(want), n(receivers)), "latch_set", latchKeys(call), to, 60000, startChannel, "PUBLISH")
	}
	down := func(receivers int64, call string) {
		t.Helper()
		b.want(list(n(1), n(receivers)), "latch_down", latchKeys(call), 60000, startChannel, "PUBLISH")
	}
	count(0)
	down(0, "early")
	if b.Int("EXISTS", start) != 0 {
		t.Fatal("counting an open latch down made a key")
	}
	set(1, 1, "set", 2)
	set(1, 0, "set", 2) // a lost reply
	set(0, 0, "set2", 9)
	set(0, 0, "set2", 9)
	count(2)
	if got := b.Int("PTTL", start); got != -1 {
		t.Fatalf("PTTL: got %d, want none, as Redisson's", got)
	}
	down(0, "a")
	down(0, "a")
	count(1)
	down(1, "b")
	down(0, "b")
	if b.Int("EXISTS", start) != 0 {
		t.Fatal("an open latch left its key")
	}
	set(0, 0, "set2", 9) // answers as it did
	count(0)

	b.String("SET", start, "0") // Redisson's "trySetCount" with 0
	count(0)
	set(1, 1, "set3", 1)
	down(0, "b") // a late attempt of a call that opened the latch before
	count(1)
	b.wantPayloads(heard, startChannel, "1", "0", "1")
	if stay := b.KeysWithoutTTL(func(key string) bool { return key == start }); len(stay) > 0 {
		t.Fatalf("marks without TTL: %q", stay)
	}

	b.String("SET", start, "text")
	b.want(list(n(-1), n(0)), "latch_count", latchKeys("")[:1])
	b.want(list(n(-1), n(0)), "latch_set", latchKeys("c"), 1, 60000, startChannel, "PUBLISH")
	b.want(list(n(-1), n(0)), "latch_down", latchKeys("c"), 60000, startChannel, "PUBLISH")
	b.Int("DEL", start)
	b.Int("HSET", start, "a:1", "1")
	if _, err := eval(t, b.client, "latch_down", latchKeys("c"), 60000, startChannel, "PUBLISH"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Fatalf("a lock as a latch: got error %v, want WRONGTYPE", err)
	}
}

func TestLatchOnAFullServer(t *testing.T) {
	b := newBench(t)
	b.String("SET", start, "2")
	b.fill()
	b.want(list(n(0), n(0)), "latch_set", latchKeys("s"), 3, 60000, startChannel, "PUBLISH")
	for _, call := range []string{"a", "b"} {
		b.want(list(n(1), n(0)), "latch_down", latchKeys(call), 60000, startChannel, "PUBLISH")
	}
	b.want(list(n(1), n(0)), "latch_count", latchKeys("")[:1])
	b.wantOOM(script{"latch_set", latchKeys("x"), []any{3, 60000, startChannel, "PUBLISH"}})
	if b.Int("EXISTS", start) != 0 {
		t.Fatal("an open latch left its key")
	}
}

func TestRedisholdLatchRefusesNoCount(t *testing.T) {
	_, b := startStore(t, nil)
	if _, err := b.SetCount(bounded(t), start, "set", 0); !errors.Is(err, driver.ErrRefused) {
		t.Fatalf("a count of 0: got %v, want ErrRefused", err)
	}
	if set, err := b.SetCount(bounded(t), "{a}b", "set", 1); err != nil || !set {
		t.Fatalf("braces on a single server: got %v and error %v", set, err)
	}
}
