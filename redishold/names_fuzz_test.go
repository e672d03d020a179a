package redishold

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

// keyslot is a second implementation of the cluster's rule, written after the
// specification and not after slot.go: keys that are in one slot for the Backend must be in one
// slot for the server.
func keyslot(key string) int {
	if _, rest, open := strings.Cut(key, "{"); open {
		if tag, _, shut := strings.Cut(rest, "}"); shut && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for _, b := range []byte(key) {
		crc = crc<<8 ^ xmodem(byte(crc>>8)^b)
	}
	return int(crc & 0x3fff)
}

// xmodem is one entry of the table of CRC-16/XMODEM: b times x^16 modulo the
// polynomial, by long division.
func xmodem(b byte) uint16 {
	rest := uint32(b) << 16
	for bit := 23; bit >= 16; bit-- {
		if rest>>bit&1 == 1 {
			rest ^= 0x11021 << (bit - 16)
		}
	}
	return uint16(rest)
}

func TestKeyslot(t *testing.T) {
	// As CLUSTER KEYSLOT answers.
	for key, want := range map[string]int{
		"123456789": 12739, "foo": 12182, "foo{bar}": 5061, "{bar}:x{y}": 5061, "somekey": 11058, "foo{hash_tag}": 2515,
	} {
		if got := keyslot(key); got != want {
			t.Errorf("keyslot(%q): got %d, want %d", key, got, want)
		}
	}
}

// fuzzClaim is a claim of one kind, with an owner as the core makes them.
func fuzzClaim(kind uint8, name string) driver.Claim {
	c := testClaim(name)
	switch kind % 5 {
	case 1:
		c.Fair = true
	case 2:
		c.ReadWrite = true
	case 3:
		c.ReadWrite, c.Mode = true, driver.Shared
	case 4:
		c.Mode, c.Permits = driver.Permit, 3
	}
	return c
}

// fuzzSlots has the numbers of slots, which take too long to compute for each input of a
// fuzzer.
type fuzzSlots struct{ layout.SlotNumbers }

func slotTable() *fuzzSlots { return &fuzzSlots{} }

// newBackend is New with these numbers.
func (s *fuzzSlots) newBackend(conn Conn, o *Options) *Backend {
	b := New(conn, o)
	b.layout.Slots = &s.SlotNumbers
	return b
}

// spot is one use of a key or channel: "the second key of acquire".
type spot struct {
	form int
	call string
	at   int
}

// spots returns the keys and the channels of the lock called name, in all calls of all kinds and
// layouts.
func spots(backends []*Backend, name string) (keys, channels map[spot]string) {
	keys, channels = map[spot]string{}, map[spot]string{}
	form := 0
	add := func(what string, called []string) {
		for i, key := range called {
			keys[spot{form, what, i}] = key
		}
	}
	for _, b := range backends {
		k := b.layout.Keys(name)
		for kind := range uint8(5) {
			if b.forms.only != nil && kind > 0 {
				break
			}
			form++
			c := fuzzClaim(kind, name)
			f := b.forms.of(c)
			add("acquire", f.Acquire(kinds.Buffers{}, k, c, nil).Keys)
			add("renew", f.Renew(kinds.Buffers{}, k, c).Keys)
			add("release", f.Release(kinds.Buffers{}, k, c, nil).Keys)
			add("abandon", f.Abandon(k, c, nil, minTombstoneTTL).Keys)
			add("explain", b.forms.oneKey.Explain(k, c).Keys)
			add("look", listCall(b, k).Keys)
			channels[spot{form, "channel", 0}] = f.Channel(k, c)
		}
		form++
		keys[spot{form, "call", 0}] = b.layout.CallKey(k, "C")
	}
	return keys, channels
}

// FuzzKeys shows that two names that are not refused do not share a key for the same use, such
// as a tombstone, a queue or a record, and that all keys of a name are in one slot.
// FuzzNamesAreApart also compares keys for different uses.
func FuzzKeys(f *testing.F) {
	for _, name := range []string{"orders", "Orders", "{t}a", "{a}b{c", "a{}", "}{", "{{a}}", "a}b{c}", "", "\x00", "a\xff", "é", "e\u0301", ":holdfast:ts"} {
		for _, prefix := range []string{"", "app:", "{app}:", "a{", "}"} {
			f.Add(prefix, name, "{"+name+"}")
			f.Add(prefix, name, strings.ToUpper(name))
			f.Add(prefix, name, name+"\x00")
		}
	}
	slots := slotTable()
	f.Fuzz(func(t *testing.T, prefix, name, other string) {
		var backends []*Backend
		for _, o := range []Options{{}, {SharedTokens: true}, {Layout: Plain}, {Layout: Timestamp}} {
			o.KeyPrefix = prefix
			backends = append(backends, slots.newBackend(&fakeConn{}, &o))
		}
		keys, channels := spots(backends, name)
		apart(t, backends[0].layout, keys, backends, name, other)
		oneSlot(t, backends[0].layout.Keys(name), keys, channels)
	})
}

// apart fails if name and other share a key that is one name's alone.
func apart(t *testing.T, l *layout.Layout, keys map[spot]string, backends []*Backend, name, other string) {
	t.Helper()
	if name == other {
		return
	}
	k, q := l.Keys(name), l.Keys(other)
	if k.Lock == q.Lock {
		t.Fatalf("%q and %q are the same lock %q", name, other, k.Lock)
	}
	if r, s := l.Record(k), l.Record(q); r == s {
		t.Fatalf("%q and %q have the same record %q", name, other, r)
	}
	if name != "" && other != "" && layout.Tagged(k.Lock) == layout.Tagged(q.Lock) && k.NameErr == nil && q.NameErr == nil {
		t.Fatalf("%q and %q have the same derived keys, and neither is refused", name, other)
	}
	if name == "" || other == "" || k.NameErr != nil || q.NameErr != nil {
		return
	}
	others, _ := spots(backends, other)
	for at, key := range keys {
		if key == others[at] && !strings.Contains(key, "holdfast:token") {
			t.Fatalf("%q and %q share %q: %+v", name, other, key, at)
		}
	}
}

// oneSlot fails if a cluster accepts k and has its keys in two slots.
func oneSlot(t *testing.T, k layout.Keys, keys, channels map[spot]string) {
	t.Helper()
	if k.Lock == "" || layout.CheckSlots(k) != nil {
		return
	}
	slot := keyslot(k.Lock)
	for _, all := range []map[spot]string{keys, channels} {
		for at, key := range all {
			if got := keyslot(key); got != slot {
				t.Errorf("%q lies in slot %d, %q in slot %d: %+v", k.Lock, slot, key, got, at)
			}
			if got := layout.SlotOf(key); got != keyslot(key) {
				t.Errorf("slotOf(%q): got %d, the server says %d", key, got, keyslot(key))
			}
		}
	}
}
