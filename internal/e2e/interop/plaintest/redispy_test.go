package plaintest

import (
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// A Lock of redis-py without a timeout, which is its default, has no TTL: when
// its holder dies it stays forever. Holdfast says that the time is unknown, and
// Break is the way out.
func TestRedisPyWithoutTimeout(t *testing.T) {
	server := redistest.Start(t)
	program := peer.Start(t, python(t, server.URL()))
	s := &scenario{T: t, foreign: foreign{library: "redis-py"}, client: program, server: server, adapter: dial.Adapters()[0], name: "stock:42"}
	s.peerLocks(0)
	if ttl := server.Int("PTTL", s.name); ttl != -1 {
		t.Fatalf("TTL: got %d, want none", ttl)
	}
	program.Kill()
	store := s.store(setting{})
	locker := holdfast.New(store, nil)
	if busy := s.wantBusy(locker.TryLock(s.within(long), s.name)); busy.Remaining != 0 || busy.Holder != s.value() {
		t.Errorf("got %+v, want it held by %q for an unknown time", busy, s.value())
	}
	holders, err := dial.Holders(s.within(long), store, s.name)
	if err != nil || len(holders) != 1 {
		t.Fatalf("Get: got %+v and error %v, want one holder", holders, err)
	}
	if err := store.ForceUnlock(s.within(long), s.name, holders[0], "its program is dead"); err != nil {
		t.Fatalf("ForceUnlock: %v", err)
	}
	s.unlock(s.lock(locker))
}
