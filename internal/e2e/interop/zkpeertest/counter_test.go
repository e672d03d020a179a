package zkpeertest

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// Curator pushes the server's counter over our limit, and to its end. Who holds or waits
// for a lock of ours by then gets it before Curator. From then on only Curator gets it,
// until the node is deleted. Curator claims it once at a time: several claims at the
// end have the same number, or a negative one, and Curator grants them together.
func TestEndOfTheCounterBesideCurator(t *testing.T) {
	const ttl = 30 * time.Second // no session ends in between
	s := zktest.StartCounted(t, map[string]int32{"/limit": zktest.LastNumber - 1, "/end": math.MaxInt32 - 1, "/rounds": 0})
	c := counted{p: peer.Start(t, curator(t, s, ttl)), client: s.Client(t)}
	if _, err := c.client.Set("/rounds", []byte("0"), -1); err != nil {
		t.Fatal(err)
	}
	for i := range c.ours {
		c.ours[i] = lockerOn(t, s, zkhold.Options{TTL: ttl})
	}
	t.Run("limit", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		held, next := must.Lock(t, c.ours[0], "limit"), sessiontest.Wait(ctx, t, c.ours[1], "limit")
		defer func() { cancel(); <-next.Granted }()
		awaitClaims(t, c.client, "/limit", 2)
		if c.p.Do(theirLock("/limit", 200*time.Millisecond)).Bool() {
			t.Fatal("granted beside us")
		}
		theirs := c.p.Go(theirLock("/limit", timeout))
		awaitClaims(t, c.client, "/limit", 3)
		zktest.RefuseCrowd(t, "limit", c.ours[2])
		must.Unlock(t, held)
		<-next.Granted
		if len(theirs) > 0 {
			t.Fatal("granted beside who waited before them")
		}
		sessiontest.Serve(t, held.Token(), next)
		granted(t, <-theirs)
		c.overTheLimit(t, "limit")
	})
	t.Run("end", func(t *testing.T) {
		granted(t, c.p.Do(theirLock("/end", timeout)))
		c.overTheLimit(t, "end")
	})
}

// counted is Curator beside clients of ours, on a server whose counters are near their ends.
type counted struct {
	p      *peer.Process
	client *zk.Conn
	ours   [3]*holdfast.Locker
}

func theirLock(path string, wait time.Duration) peer.Command {
	return peer.Command{Op: "lock", Name: path, Wait: wait.Milliseconds()}
}

func granted(t *testing.T, r peer.Reply) {
	t.Helper()
	if r.Err() != nil || !r.Bool() {
		t.Fatalf("got %s and error %v, want that they hold it", r.Value, r.Err())
	}
}

// overTheLimit has them release a lock and take it again and again, while ours are
// refused. Once its node is deleted both lock it in turns.
func (c counted) overTheLimit(t *testing.T, name string) {
	t.Helper()
	path := "/" + name
	zktest.RefuseCrowd(t, name, c.ours[:]...)
	c.p.Do(peer.Command{Op: "unlock", Name: path})
	rounds := peer.Command{Op: "rounds", Name: path, N: 20, Value: "/rounds"}
	done := c.p.Go(rounds)
	zktest.RefuseCrowd(t, name, c.ours[:]...)
	if r := c.p.Await(rounds, done, timeout); r.Err() != nil {
		t.Fatal(r.Err())
	}
	if err := c.client.Delete(path, -1); err != nil {
		t.Fatalf("delete the node when nobody holds the lock: %v", err)
	}
	for range 3 {
		held := must.Lock(t, c.ours[0], name)
		theirs := c.p.Go(theirLock(path, timeout))
		awaitClaims(t, c.client, path, 2)
		if len(theirs) > 0 {
			t.Fatal("granted beside us")
		}
		must.Unlock(t, held)
		granted(t, <-theirs)
		if _, err := c.ours[0].TryLock(await.Context(t, timeout), name); !errors.Is(err, holdfast.ErrBusy) {
			t.Fatalf("beside them: got error %v, want ErrBusy", err)
		}
		c.p.Do(peer.Command{Op: "unlock", Name: path})
	}
}
