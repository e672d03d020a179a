package redishold

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

// apartOptions are the layouts that there are.
func apartOptions(prefix string) []Options {
	return []Options{
		{KeyPrefix: prefix},
		{KeyPrefix: prefix, SharedTokens: true},
		{KeyPrefix: prefix, Layout: Plain},
		{KeyPrefix: prefix, Layout: Timestamp},
	}
}

// everyKey returns all keys of the lock called name, of all kinds: those that b's
// calls name, those that only scripts and Java programs know, and what each is. The
// counter that all names of a slot share is left out.
func everyKey(b *Backend, name string) map[string]string {
	keys := map[string]string{}
	k, c := b.layout.Keys(name), fuzzClaim(0, name)
	add := func(what string, some ...string) {
		for _, key := range some {
			if key != k.Counter || b.layout.SharedTokens {
				keys[key] = what
			}
		}
	}
	for kind := range uint8(5) {
		if b.forms.only != nil && kind > 0 {
			break
		}
		c := fuzzClaim(kind, name)
		f := b.forms.of(c)
		add("acquire", f.Acquire(kinds.Buffers{}, k, c, nil).Keys...)
		add("renew", f.Renew(kinds.Buffers{}, k, c).Keys...)
		add("release", f.Release(kinds.Buffers{}, k, c, nil).Keys...)
		add("abandon", f.Abandon(k, c, nil, minTombstoneTTL).Keys...)
		add("explain", b.forms.oneKey.Explain(k, c).Keys...)
		add("look", listCall(b, k).Keys...)
	}
	add("who waits", b.layout.Waiters(k))
	if b.forms.only != nil {
		return keys
	}
	add("mark of a call", b.layout.CallKey(k, "C"))
	add("lease of a reader", layout.TimeoutKey(k, c.Owner, 1))
	add("latch of an unlock of Redisson's", "redisson_unlock_latch:"+layout.Tagged(k.Lock)+":9f0c")
	return keys
}

// everyChannel returns the channels of the lock called name. Those of a fair waiter
// contain the UUID of a client, which is not in a name.
func everyChannel(b *Backend, name string) map[string]string {
	k := b.layout.Keys(name)
	if b.forms.only != nil {
		return map[string]string{k.Channel: "release"}
	}
	return map[string]string{
		k.Channel: "release", layout.ReadWriteChannel(k): "read-write lock", layout.SemaphoreChannel(k): "semaphore", layout.LatchChannel(k): "latch",
	}
}

// wantApart fails if two of names, neither of which b refuses, share a key or a
// channel.
func wantApart(t *testing.T, b *Backend, names ...string) {
	t.Helper()
	type use struct{ name, what string }
	keys, channels := map[string]use{}, map[string]use{}
	note := func(in map[string]use, sort, name string, some map[string]string) {
		for key, what := range some {
			if before, ok := in[key]; ok {
				t.Errorf("prefix %q, %s: %q (%s) and %q (%s) share the %s %q",
					b.options.KeyPrefix, b.options.Layout, before.name, before.what, name, what, sort, key)
			}
			in[key] = use{name, what}
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name != "" && b.layout.ComputeKeys(name).NameErr == nil {
			note(keys, "key", name, everyKey(b, name))
			note(channels, "channel", name, everyChannel(b, name))
		}
	}
}

var apartPrefixes = []string{"", "app:", "{app}:", "{app", "a{", "}", "{", "app", "{}", "redisson_", "redisson_lock_queue:", "holdfast:", "x:holdfast:"}

// nearby returns names that may collide with name: wrapped in braces, stripped of
// them, and all its own keys and channels.
func nearby(b *Backend, name string) []string {
	names := []string{name, "{" + name + "}", strings.Trim(name, "{}"), name + ":timeout", "{" + name + "}:timeout"}
	for _, some := range []map[string]string{everyKey(b, name), everyChannel(b, name)} {
		for key := range some {
			names = append(names, key, strings.TrimPrefix(key, b.options.KeyPrefix))
		}
	}
	return names
}

// No two names share a key or a channel, or one of them is refused.
func TestNamesAreApart(t *testing.T) {
	names := []string{"orders", "{orders}", "{t}:orders", "a{b}c", "{a}{b}", "{a}b}", "a}b", "{{a}}", "{a", "a}", "{}", "{}a", "orders:timeout"}
	slots := slotTable()
	for _, prefix := range apartPrefixes {
		for _, o := range apartOptions(prefix) {
			b := slots.newBackend(&fakeConn{}, &o)
			var all []string
			for _, name := range names {
				all = append(all, nearby(b, name)...)
			}
			wantApart(t, b, all...)
		}
	}
}

// FuzzNamesAreApart searches for names that TestNamesAreApart does not have.
func FuzzNamesAreApart(f *testing.F) {
	for _, prefix := range apartPrefixes {
		f.Add(prefix, "orders", "{orders}")
		f.Add(prefix, "{t}:orders", "{t}:orders:timeout")
		f.Add(prefix, "orders", "redisson_lock_queue:{orders}")
		f.Add(prefix, "orders", "holdfast:fair:{orders}")
	}
	slots := slotTable()
	f.Fuzz(func(t *testing.T, prefix, name, other string) {
		for _, o := range apartOptions(prefix) {
			b := slots.newBackend(&fakeConn{}, &o)
			wantApart(t, b, append(nearby(b, name), other)...)
		}
	})
}

// A name is refused only if that is necessary. The error has another name to use, or the lock
// to which the key belongs.
func TestWhichNamesAreRefused(t *testing.T) {
	for _, c := range []struct {
		prefix, name string
		which        Layout
		want         string // part of the error, "" if there is none
	}{
		{"", "orders", Redisson, ""},
		{"", "{orders}", Redisson, `"orders"`},
		{"", "{orders}", Plain, ""},
		{"", "{orders}", Timestamp, ""},
		{"app:", "{orders}", Redisson, ""}, // app:{orders} and app:orders have nothing in common
		{"{app}:", "{orders}", Redisson, ""},
		{"{", "orders}", Redisson, `"orders"`}, // of a program without a prefix
		{"", "{t1}:orders", Redisson, ""},
		{"", "{orders}:1", Redisson, ""},
		{"", "{a}{b}", Redisson, ""},
		{"", "a{b}", Redisson, ""},
		{"", "{a}b}", Redisson, `"a}b"`},
		{"", "{{a}}", Redisson, ""},
		{"", "{}", Redisson, ""}, // a name has to be something
		{"", "orders:timeout", Redisson, ""},
		{"", "{orders}:timeout", Redisson, `"orders"`},
		{"", "{orders}:timeout", Plain, ""},
		{"", "{t1}:orders:timeout", Redisson, `"{t1}:orders"`},
		{"{app}:", "orders:timeout", Redisson, `"orders"`},
		{"app:", "orders:timeout", Redisson, ""},
		{"", "redisson_lock_queue:{orders}", Redisson, `"orders"`},
		{"", "redisson_lock_timeout:{t1}:orders", Redisson, `"{t1}:orders"`},
		{"", "redisson_lock_token:{orders}", Redisson, `"orders"`},
		{"", "redisson_unlock_latch:{orders}:9f0c", Redisson, `"orders"`},
		{"", "redisson_lock_queue:orders", Redisson, ""},
		{"redisson_", "lock_queue:{orders}", Redisson, `"orders"`},
		{"app:", "redisson_lock_queue:{orders}", Redisson, ""},
		{"", "{orders}:71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:57:rwlock_timeout:1", Redisson, `"orders"`},
		{"", "orders:rwlock_timeout:1", Redisson, ""},
		{"", "holdfast:token:{7}", Redisson, "Holdfast's own"},
		{"", "holdfast:token:{7}", Plain, "Holdfast's own"},
		{"app:", "holdfast:client:me", Timestamp, "Holdfast's own"},
		{"", "{t1}:orders:holdfast:ts", Redisson, "Holdfast's own"},
		{"", "holdfast", Redisson, ""},
		{"", "my-holdfast:job", Redisson, ""},
		{"holdfast:", "orders", Redisson, ""},
	} {
		b := New(&fakeConn{}, &Options{KeyPrefix: c.prefix, Layout: c.which})
		err := b.layout.Keys(c.name).NameErr
		switch {
		case c.want == "" && err != nil:
			t.Errorf("prefix %q, %s, name %q: got %v, want it to be kept", c.prefix, c.which, c.name, err)
		case c.want == "":
		case !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), c.want):
			t.Errorf("prefix %q, %s, name %q: got error %v, want a refusal with %s", c.prefix, c.which, c.name, err, c.want)
		}
	}
}

// A name that is refused is so at every entry, before the server is asked.
func TestRefusedNamesAreRefusedEverywhere(t *testing.T) {
	conn := &fakeConn{}
	b := New(conn, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	const name = "{orders}"
	for what, call := range map[string]func() error{
		"Try":        func() error { _, err := b.Try(ctx, testClaim(name)); return err },
		"TryAll":     func() error { return b.TryAll(ctx, []driver.Claim{testClaim(name)})[0].Err },
		"fair":       func() error { _, err := b.Try(ctx, fuzzClaim(1, name)); return err },
		"write":      func() error { _, err := b.Try(ctx, fuzzClaim(2, name)); return err },
		"read":       func() error { _, err := b.Try(ctx, fuzzClaim(3, name)); return err },
		"permit":     func() error { _, err := b.Try(ctx, fuzzClaim(4, name)); return err },
		"Break":      func() error { return b.ForceUnlock(ctx, name, admin.Holder{Owner: "u:1", Holds: 1}, "test") },
		"Resize":     func() error { return b.Resize(ctx, name, 1) },
		"Permits":    func() error { _, _, err := b.Permits(ctx, name); return err },
		"SetCount":   func() error { _, err := b.SetCount(ctx, name, "c", 1); return err },
		"CountDown":  func() error { return b.CountDown(ctx, name, "c") },
		"Count":      func() error { _, err := b.Count(ctx, name); return err },
		"TrySet":     func() error { _, err := b.PlainSemaphore(name).TrySet(ctx, 1); return err },
		"Acquire":    func() error { return b.PlainSemaphore(name).Acquire(ctx, 1) },
		"TryAcquire": func() error { _, err := b.PlainSemaphore(name).TryAcquire(ctx, 1); return err },
		"Available":  func() error { _, err := b.PlainSemaphore(name).Available(ctx); return err },
	} {
		err := call()
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), `"orders"`) {
			t.Errorf("%s: got error %v, want a refusal that names the other lock", what, err)
		}
	}
	if calls := conn.scripts(); len(calls) > 0 {
		t.Errorf("the server was asked: %v", calls)
	}
}
