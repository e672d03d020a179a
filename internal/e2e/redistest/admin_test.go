package redistest_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

func TestDoDecodesReplies(t *testing.T) {
	s := start(t)
	s.Do("HSET", "h", "a", "1", "b", "2")
	s.Do("RPUSH", "l", "x", "y")
	for _, tc := range []struct {
		args []string
		want any
	}{
		{[]string{"PING"}, "PONG"},
		{[]string{"HLEN", "h"}, int64(2)},
		{[]string{"GET", "none"}, nil},
		{[]string{"ECHO", "a\r\nb"}, "a\r\nb"},
		{[]string{"MGET", "none", "none"}, []any{nil, nil}},
		{[]string{"LRANGE", "l", "0", "-1"}, []any{"x", "y"}},
		{[]string{"EVAL", "return {1,'a',{false,2}}", "0"}, []any{int64(1), "a", []any{nil, int64(2)}}},
	} {
		if got := s.Do(tc.args...); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%v: got %#v, want %#v", tc.args, got, tc.want)
		}
	}
	err, ok := s.Do("HGET", "l", "x").(error)
	if !ok || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
		t.Errorf("got %v, want WRONGTYPE", err)
	}
	if got, want := s.Map("HGETALL", "h"), map[string]string{"a": "1", "b": "2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := s.Strings("MGET", "none", "none"), []string{"", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnboundHelperPanics(t *testing.T) {
	s := start(t)
	defer func() {
		if recover() == nil {
			t.Fatal("Int of a string did not panic")
		}
	}()
	redistest.At(s.Addr(), "").Int("PING")
}

func TestKeysWithoutTTL(t *testing.T) {
	s := start(t)
	s.Do("SET", "forever", "1")
	s.Do("SET", "counter:a", "1")
	s.Do("SET", "leased", "1", "PX", "60000")
	// more than one page of SCAN
	s.Do("EVAL", "for i = 1, 2500 do redis.call('SET', 'p' .. i, 1, 'PX', 60000) end", "0")
	if got := len(s.Keys()); got != 2503 {
		t.Fatalf("got %d keys, want 2503", got)
	}
	counter := func(key string) bool { return strings.HasPrefix(key, "counter:") }
	if got, want := s.KeysWithoutTTL(counter), []string{"forever"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	if got, want := s.KeysWithoutTTL(), []string{"counter:a", "forever"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestListen(t *testing.T) {
	s := start(t)
	l := s.Listen("ch:*")
	s.Do("PUBLISH", "other", "0")
	s.Do("PUBLISH", "ch:a", "1")
	s.Do("PUBLISH", "ch:b", "2")
	want := []redistest.Message{{Channel: "ch:a", Payload: "1"}, {Channel: "ch:b", Payload: "2"}}
	if got := l.Wait(2); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	l.Stop()
	l.Stop()
	s.Do("PUBLISH", "ch:c", "3")
	if got := l.Messages(); !slices.Equal(got, want) {
		t.Fatalf("got %v after Stop, want %v", got, want)
	}
}

func TestListenSharded(t *testing.T) {
	redistest.Needs(t, redistest.ShardedChannels)
	s := start(t)
	sharded := s.ListenSharded("sh")
	s.Do("PUBLISH", "sh", "classic")
	s.Do("SPUBLISH", "sh", "sharded")
	if got, want := sharded.Wait(1)[0], (redistest.Message{Channel: "sh", Payload: "sharded"}); got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestKillPubSub(t *testing.T) {
	s := start(t)
	l := s.Listen("*")
	if got := s.KillPubSub(); got != 1 {
		t.Fatalf("got %d killed, want 1", got)
	}
	l.Stop()
	if got := s.KillPubSub(); got != 0 {
		t.Fatalf("got %d killed, want 0", got)
	}
}

func TestCommandStats(t *testing.T) {
	s := start(t)
	s.Do("CONFIG", "RESETSTAT")
	s.Do("GET", "a")
	s.Do("GET", "a")
	s.Do("EVAL", "return redis.call('SET', KEYS[1], '1')", "1", "k")
	got := s.CommandStats()
	if got["get"] != 2 || got["eval"] != 1 || got["set"] != 1 {
		t.Fatalf("got %v, want 2 get, 1 eval, 1 set", got)
	}
	if _, ok := got["hello"]; ok {
		t.Fatalf("got %v, want no handshake of our own", got)
	}
}

func TestFlushScripts(t *testing.T) {
	s := start(t)
	sha := s.String("SCRIPT", "LOAD", "return 1")
	if got := s.Int("EVALSHA", sha, "0"); got != 1 {
		t.Fatalf("got %d, want 1", got)
	}
	s.FlushScripts()
	err, ok := s.Do("EVALSHA", sha, "0").(error)
	if !ok || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
		t.Fatalf("got %v, want NOSCRIPT", err)
	}
}
