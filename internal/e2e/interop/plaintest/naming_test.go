package plaintest

import (
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
)

// namesAreTheSame: the library's name of a lock is Holdfast's, whatever is in it.
func namesAreTheSame(s *scenario) {
	locker := s.locker(setting{})
	for _, name := range []string{"a b", "{t1}:orders", "a{b}c{d", "Ünïcode ✓", "lock:stock:42:", `"quoted"\n%s*?[x]`, strings.Repeat("x", 1000)} {
		s.name = name
		s.peerLocks(long)
		s.wantBusy(locker.TryLock(s.within(long), name))
		if s.value() == "" {
			s.Errorf("%q: the library's key is not its name", name)
		}
		s.peerUnlocks()
		lock := s.lock(locker)
		if s.do(peer.Command{Op: "tryLock", Lease: 5000}) {
			s.Errorf("%q: both hold it", name)
		}
		s.unlock(lock)
	}
}

// prefixIsPartOfTheKey: what Options.KeyPrefix puts before the name, the library has
// in the name.
func prefixIsPartOfTheKey(s *scenario) {
	locker := s.locker(setting{prefix: "app:"})
	name := s.name
	s.name = "app:" + name
	s.peerLocks(long)
	s.wantBusy(locker.TryLock(s.within(long), name))
	s.peerUnlocks()
	lock, err := locker.TryLock(s.within(long), name)
	if err != nil {
		s.Fatalf("TryLock: %v", err)
	}
	if s.do(peer.Command{Op: "tryLock", Lease: 5000}) {
		s.Error("both hold it")
	}
	s.unlock(lock)
}

// valuesWithOddBytes: whatever a library writes is a holder, is compared byte for
// byte, and is shown without what a terminal might obey.
func valuesWithOddBytes(s *scenario) {
	if !s.takesValues {
		s.Skipf("%s chooses its values itself", s.library)
	}
	store := s.store(setting{})
	locker := holdfast.New(store, nil)
	for _, value := range []string{
		"1", "0", "nil", "true", " ", "\x00", "a\x00b", "\xff\xfe", "two\r\nlines", "\x1b[31mred", "a:1", ":", "é in latin-1: \xe9",
		"71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11:1", // as Holdfast's own
		strings.Repeat("long", 1000),
	} {
		runes := make([]rune, 0, len(value))
		for _, b := range []byte(value) {
			runes = append(runes, rune(b))
		}
		s.must(peer.Command{Op: "tryLock", Lease: long.Milliseconds(), Value: string(runes)})
		if got := s.value(); got != value {
			s.Fatalf("value: got %q, want %q", got, value)
		}
		busy := s.wantBusy(locker.TryLock(s.within(long), s.name))
		if busy.Remaining <= long-5*time.Second || len(busy.Error()) > 400 || strings.ContainsFunc(busy.Error(), unicode.IsControl) {
			s.Errorf("value %q: got %q for %v, want it short and printable", value, busy.Error(), busy.Remaining)
		}
		holders, err := dial.Holders(s.within(long), store, s.name)
		if long := len(value) > 512; err != nil || long != (len(holders) == 0) || !long && holders[0].Owner != value { // a list takes it for other data
			s.Errorf("value %q: Get: got %+v and error %v", value, holders, err)
		}
		s.peerUnlocks()
		s.unlock(s.lock(locker))
	}
}

// severalNamesAtOnce: each name of an array of resources is a lock of its own,
// and the library gets all of them or none.
func severalNamesAtOnce(s *scenario) {
	if !s.takesNames {
		s.Skipf("%s locks one name at a time", s.library)
	}
	locker := s.locker(setting{})
	first := s.name
	both := peer.Command{Op: "tryLock", Names: []string{first, first + ":b"}, Lease: long.Milliseconds()}
	s.must(both)
	for _, name := range both.Names {
		s.wantBusy(locker.TryLock(s.within(long), name))
	}
	s.peerUnlocks()

	s.name = first + ":b"
	lock := s.lock(locker)
	s.name = first
	if s.do(both) || s.value() != "" {
		s.Errorf("Holdfast holds one of two names: %s got both, or left value %q", s.library, s.value())
	}
	s.unlock(lock)
}
