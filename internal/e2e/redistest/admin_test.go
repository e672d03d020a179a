package redistest_test

import (
	"slices"
	"strings"
	"testing"
)

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
