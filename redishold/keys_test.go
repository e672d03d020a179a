package redishold

import (
	"errors"
	"strconv"
	"testing"
)

func TestCRC16(t *testing.T) {
	if got := crc16("123456789"); got != 0x31C3 {
		t.Fatalf("got %#x, want 0x31c3", got)
	}
}

func TestSlotOf(t *testing.T) {
	// As CLUSTER KEYSLOT answers.
	for key, want := range map[string]int{
		"123456789": 12739, "foo": 12182, "foo{bar}": 5061, "bar": 5061, "{bar}:x{y}": 5061, "somekey": 11058, "foo{hash_tag}": 2515,
	} {
		if got := slotOf(key); got != want {
			t.Errorf("slotOf(%q): got %d, want %d", key, got, want)
		}
	}
	// A tag that is empty or not closed is none.
	for _, key := range []string{"foo{}{bar}", "foo{bar", "foo}bar{", "{}"} {
		if got, want := slotOf(key), int(crc16(key))%slotCount; got != want {
			t.Errorf("slotOf(%q): got %d, want that of the whole key, %d", key, got, want)
		}
	}
}

func TestSlotNumbersAreTheSmallest(t *testing.T) {
	var s slotNumbers
	for slot := range slotCount {
		if got := slotOf(strconv.FormatUint(uint64(s.of(slot)), 10)); got != slot {
			t.Fatalf("number %d of slot %d lies in slot %d", s.of(slot), slot, got)
		}
	}
	for n := range uint32(20000) {
		if slot := slotOf(strconv.FormatUint(uint64(n), 10)); s.of(slot) > n {
			t.Fatalf("slot %d: got %d, want at most %d", slot, s.of(slot), n)
		}
	}
}

func TestLayout(t *testing.T) {
	const owner = "u:1"
	for _, c := range []struct{ prefix, name, lock, channel, mark string }{
		{"", "orders", "orders", "redisson_lock__channel:{orders}", "holdfast:gone:{orders}:u:1"},
		{"", "{t1}:orders", "{t1}:orders", "redisson_lock__channel:{t1}:orders", "holdfast:gone:{t1}:orders:u:1"},
		{"app:", "orders", "app:orders", "redisson_lock__channel:{app:orders}", "app:holdfast:gone:{app:orders}:u:1"},
		{"app:", "a{t1}", "app:a{t1}", "redisson_lock__channel:app:a{t1}", "app:holdfast:gone:app:a{t1}:u:1"},
		{"{app}:", "orders", "{app}:orders", "redisson_lock__channel:{app}:orders", "{app}:orders:holdfast:gone:u:1"},
		{"a{", "b}c", "a{b}c", "redisson_lock__channel:a{b}c", "a{b}c:holdfast:gone:u:1"},
	} {
		l := &layout{prefix: c.prefix}
		p := l.place(c.name)
		if p.name != c.name || p.lock != c.lock || p.channel != c.channel || l.mark(p, owner) != c.mark {
			t.Errorf("prefix %q, name %q: got %+v and mark %q, want %+v", c.prefix, c.name, p, l.mark(p, owner), c)
		}
	}
	l := &layout{prefix: "app:"}
	number := strconv.FormatUint(uint64(l.slots.of(slotOf("app:orders"))), 10)
	if got, want := l.place("orders").counter, "app:holdfast:token:{"+number+"}"; got != want {
		t.Errorf("counter: got %q, want %q", got, want)
	}
	if got, want := (&layout{prefix: "{app}:"}).place("orders").counter, "{app}:holdfast:token"; got != want {
		t.Errorf("counter: got %q, want %q", got, want)
	}
}

func TestPlaceable(t *testing.T) {
	for _, c := range []struct {
		prefix, name string
		want         error
	}{
		{"", "orders", nil},
		{"", "{t1}:orders", nil},
		{"", "{a}b{c}", nil},
		{"", "{a}b{c", nil},
		{"", "a{b", errOpenBrace},
		{"", "a}b", errOpenBrace},
		{"", "{}z", errEmptyTag},
		{"", "{}{a}", errEmptyTag},
		{"", "a}b{c}", errBraceOrder},
		{"{app}:", "a{b", nil}, // the prefix's tag comes first
		{"{}", "orders", errEmptyTag},
		{"a{", "b", errOpenBrace},
		{"a{", "b}c", errPrefix},
		{"a}", "{b}", errBraceOrder},
	} {
		l := &layout{prefix: c.prefix}
		if got := placeable(l.place(c.name)); !errors.Is(got, c.want) {
			t.Errorf("prefix %q, name %q: got %v, want %v", c.prefix, c.name, got, c.want)
		}
	}
}

// FuzzPlaceable shows that a lock that is not refused has all that belongs to it
// in one slot, as the cluster sees it.
func FuzzPlaceable(f *testing.F) {
	for _, name := range []string{"orders", "{t}a", "{a}b{c", "a{}", "}{", "{{a}}", "a}b{c}", ""} {
		f.Add("", name)
		f.Add("app:", name)
		f.Add("{app}:", name)
		f.Add("a{", name)
		f.Add("}", name)
	}
	slots := &layout{}
	slots.slots.of(0)
	f.Fuzz(func(t *testing.T, prefix, name string) {
		l := slots
		if prefix != "" {
			l = &layout{prefix: prefix}
			l.slots.once.Do(func() { l.slots.numbers = slots.slots.numbers })
		}
		p := l.place(name)
		if placeable(p) != nil || p.lock == "" {
			return
		}
		for _, key := range []string{p.channel, p.counter, l.mark(p, "u:1")} {
			if slotOf(key) != slotOf(p.lock) {
				t.Errorf("%q lies in slot %d, %q in slot %d", p.lock, slotOf(p.lock), key, slotOf(key))
			}
		}
	})
}
