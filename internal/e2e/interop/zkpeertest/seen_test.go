package zkpeertest

import (
	"testing"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/zkhold"
)

// Holders and waiters are shown of each library, and a hold that is ended by force goes
// to a waiter.
func TestSeen(t *testing.T) {
	for _, lib := range libraries() {
		t.Run(lib.name, func(t *testing.T) {
			p := peer.Start(t, lib.start(t))
			lock := func(thread string) <-chan peer.Reply {
				return p.Go(peer.Command{Op: "lock", Thread: thread, Name: "/" + name(t), Wait: timeout.Milliseconds()})
			}
			if r := <-lock("one"); !r.Bool() {
				t.Fatal("not granted, want that the name is free")
			}
			waits := lock("two")
			r := seen(t, name(t), 1, 1)
			if r.Kind != admin.KindMutex || r.Holds[0].Mode != driver.Exclusive {
				t.Errorf("got %+v, want an exclusive lock", r)
			}
			t.Logf("%s: notes %q and %q", lib.name, r.Holds[0].Note, r.Waiters[0].Note)
			if err := console(t).ForceUnlock(await.Context(t, timeout), name(t), r.Holds[0].Holder, "a test"); err != nil {
				t.Fatal(err)
			}
			if r := <-waits; r.Err() != nil || !r.Bool() {
				t.Fatalf("got %s and error %v, want that who waited holds it", r.Value, r.Err())
			}
			if next := seen(t, name(t), 1, 0); next.Holds[0].Owner != r.Waiters[0].Owner {
				t.Errorf("got %+v, want the hold of %s", next, r.Waiters[0].Owner)
			}
		})
	}
}

// Readers, writers and permits of Curator are shown as such, without a number of permits.
func TestCuratorSeen(t *testing.T) {
	p := peer.Start(t, libraries()[0].start(t))
	at := "/" + name(t)
	for _, c := range []peer.Command{
		{Op: "lock", Thread: "one", Kind: "read", Name: at + "-rw", Wait: timeout.Milliseconds()},
		{Op: "lock", Thread: "two", Kind: "read", Name: at + "-rw", Wait: timeout.Milliseconds()},
		{Op: "acquire", Name: at, Wait: timeout.Milliseconds()},
	} {
		if !p.Do(c).Bool() {
			t.Fatalf("%+v: not granted", c)
		}
	}
	if r := seen(t, name(t)+"-rw", 2, 0); r.Kind != admin.KindReadWrite || r.Holds[0].Mode != driver.Shared {
		t.Errorf("got %+v, want readers", r)
	}
	if r := seen(t, name(t), 1, 0); r.Kind != admin.KindSemaphore || r.Permits != 0 || r.Free != 0 || r.Holds[0].Mode != driver.Permit {
		t.Errorf("got %+v, want a permit of a number that is not known", r)
	}
	names := map[string]bool{}
	for r, err := range console(t).List(await.Context(t, timeout), admin.Filter{NamePrefix: name(t)}) {
		if err != nil || names[r.Name] {
			t.Errorf("got %+v again, or error %v", r, err)
		}
		names[r.Name] = true
	}
	if len(names) != 2 || !names[name(t)] || !names[name(t)+"-rw"] {
		t.Errorf("got the names %v, want two", names)
	}
}

// seen waits until a name has so many holders and waiters, which are those of another
// program.
func seen(t *testing.T, name string, holders, waiting int) (r admin.Record) {
	t.Helper()
	c := console(t)
	await.Until(t, timeout, "who holds and who waits is shown", func() bool {
		records, err := c.Get(await.Context(t, timeout), name)
		if err != nil {
			t.Fatal(err)
		}
		r = records[0]
		return r.Holders == holders && r.Waiting == waiting
	})
	for _, h := range r.Holds {
		if h.Client.ID == "" || h.Client.Library != "" || h.Token != 0 || h.Remaining != admin.RemainingUnknown {
			t.Errorf("got the hold %+v, want one of a session, and no more", h)
		}
	}
	return r
}

func console(t *testing.T) *admin.Console {
	t.Helper()
	b := zkhold.New([]string{server.Addr()}, &zkhold.Options{TTL: ttl})
	t.Cleanup(b.Close)
	return admin.New(b)
}
