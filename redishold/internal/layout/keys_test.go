package layout

import (
	"slices"
	"strconv"
	"strings"
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
		if got := SlotOf(key); got != want {
			t.Errorf("slotOf(%q): got %d, want %d", key, got, want)
		}
	}
	// A tag that is empty or not closed is none.
	for _, key := range []string{"foo{}{bar}", "foo{bar", "foo}bar{", "{}"} {
		if got, want := SlotOf(key), int(crc16(key))%SlotCount; got != want {
			t.Errorf("slotOf(%q): got %d, want that of the whole key, %d", key, got, want)
		}
	}
}

func TestSlotNumbersAreTheSmallest(t *testing.T) {
	var numbers, backwards SlotNumbers
	all := make([]uint32, SlotCount)
	for slot := range SlotCount {
		all[slot] = numbers.Of(slot)
		if got := SlotOf(strconv.FormatUint(uint64(all[slot]), 10)); got != slot {
			t.Fatalf("number %d of slot %d lies in slot %d", all[slot], slot, got)
		}
	}
	for n := range uint32(20000) {
		if slot := SlotOf(strconv.FormatUint(uint64(n), 10)); all[slot] > n {
			t.Fatalf("slot %d: got %d, want at most %d", slot, all[slot], n)
		}
	}
	for slot := SlotCount - 1; slot >= 0; slot-- {
		if got := backwards.Of(slot); got != all[slot] {
			t.Fatalf("slot %d: got %d if other slots were asked for before, want %d", slot, got, all[slot])
		}
	}
}

func TestCheckSlots(t *testing.T) {
	for _, c := range []struct {
		prefix, name string
		want         string // part of the error
	}{
		{"", "orders", ""},
		{"", "{t1}:orders", ""},
		{"", "{a}b{c}", ""},
		{"", "{a}b{c", ""},
		{"", "a{b", "its braces must be balanced"},
		{"", "a}b", "its braces must be balanced"},
		{"", "{}z", "empty braces"},
		{"", "{}{a}", "empty braces"},
		{"", "a}b{c}", "before the first"},
		{"{app}:", "a{b", ""}, // the prefix's tag comes first
		{"{}", "orders", "empty braces"},
		{"a{", "b", "its braces must be balanced"},
		{"a{", "b}c", "braces of the key prefix"},
		{"a}", "{b}", "before the first"},
	} {
		l := New(c.prefix, "", false)
		if got := CheckSlots(l.Keys(c.name)); (got == nil) != (c.want == "") || got != nil && !strings.Contains(got.Error(), c.want) {
			t.Errorf("prefix %q, name %q: got %v, want one with %q", c.prefix, c.name, got, c.want)
		}
	}
}

// FuzzCheckSlots shows that a lock that is not refused has all its keys
// in one slot, as the cluster sees it.
func FuzzCheckSlots(f *testing.F) {
	long := strings.Repeat("x", longName)
	for _, name := range []string{"orders", "{t}a", "{a}b{c", "a{}", "}{", "{{a}}", "a}b{c}", "", long, "{t}" + long, "a{" + long} {
		f.Add("", name)
		f.Add("app:", name)
		f.Add("{app}:", name)
		f.Add("a{", name)
		f.Add("}", name)
	}
	slots := New("", "", false)
	f.Fuzz(func(t *testing.T, prefix, name string) {
		l := slots
		if prefix != "" {
			l = New(prefix, "", false)
			l.Slots = slots.Slots
		}
		k := l.Keys(name)
		if CheckSlots(k) != nil || k.Lock == "" {
			return
		}
		for _, key := range []string{k.Channel, k.Counter, l.Tombstone(k, "u:1")} {
			if SlotOf(key) != SlotOf(k.Lock) {
				t.Errorf("%q lies in slot %d, %q in slot %d", k.Lock, SlotOf(k.Lock), key, SlotOf(key))
			}
		}
	})
}

// A long name is not part of the keys of its tombstones, which are keys of no other name.
func TestTombstonesOfLongNames(t *testing.T) {
	long := strings.Repeat("x", longName+1)
	seen := map[string]string{}
	for _, prefix := range []string{"", "app:", "{app}:"} {
		l := New(prefix, "", false)
		for _, name := range []string{long, "{t}" + long, long + "y", "{" + long + "}", long[:longName-len(prefix)], "orders"} {
			k := l.Keys(name)
			key := l.Tombstone(k, "u:1")
			if SlotOf(key) != SlotOf(k.Lock) {
				t.Errorf("%q: the tombstone %q is in slot %d, the lock in %d", k.Lock, key, SlotOf(key), SlotOf(k.Lock))
			}
			if other := seen[key]; other != "" {
				t.Errorf("%q and %q have the same tombstones", other, k.Lock)
			}
			seen[key] = k.Lock
			if !l.IsAuxiliary(key) {
				t.Errorf("%q is the key of a lock", key)
			}
			if got, want := strings.Contains(key, name), len(k.Lock) <= longName; got != want {
				t.Errorf("the tombstone of a name of %d bytes contains the name: %v, want %v", len(name), got, want)
			}
		}
	}
}

// The timeout keys of readers are bounded, whatever other programs wrote.
func TestTimeoutKeysAreBounded(t *testing.T) {
	k := Keys{Lock: "page"}
	long := strings.Repeat("x", MaxReader+1)
	got := TimeoutKeys(k, []string{"a:1", "2", long, "1", "b:1", "text", "c:1", "-1", "d:1", "1", "e:1"})
	want := []string{"{page}:a:1:rwlock_timeout:1", "{page}:a:1:rwlock_timeout:2", "{page}:d:1:rwlock_timeout:1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := len(TimeoutKeys(k, []string{"a:1", "1500", "b:1", "999999999999"})); got != maxTimeoutKeys {
		t.Errorf("got %d keys, want %d", got, maxTimeoutKeys)
	}
}
