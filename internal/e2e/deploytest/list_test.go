package deploytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// In a cluster every master is walked, and a name that it cannot place is an error
// that does not hide the others.
func TestListCluster(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Cluster)
	for _, adapter := range dial.Adapters() {
		t.Run(adapter, func(t *testing.T) {
			conn, shut, err := dial.Open(t.Context(), dial.To(adapter, d))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(shut)
			for _, prefix := range []string{"", "app:", "{app}:"} {
				o := &redishold.Options{KeyPrefix: prefix}
				b := redishold.New(conn, o)
				l, c := holdfast.New(b, &holdfast.Options{Note: "me"}), admin.New(b)
				listCluster(t, l, c, adapter)
				reportCluster(t, redishold.New(conn, o), redishold.New(conn, o), adapter)
				records, err := c.Get(t.Context(), "free", "a}b{c", "x")
				if prefix != "{app}:" && (err == nil || records[0].Kind != "" || records[1].Kind != admin.KindUnknown || records[2].Kind != "") {
					t.Errorf("a name that a cluster cannot place: got %+v, %v", records, err)
				}
				noticesInCluster(t, d, l, c)
				if err := l.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// reportCluster says what is held and waited for in many slots, and wants to be
// says so.
func reportCluster(t *testing.T, b, eye *redishold.Backend, names string) {
	t.Helper()
	l := holdfast.New(b, nil)
	r := driver.Report{Note: "me", TTL: 30 * time.Second}
	var locks []*holdfast.Lock
	for i := range 20 {
		lock := mustTake(t, l.Mutex(fmt.Sprintf("%s:told:%d", names, i)).Lock)
		records, err := b.Get(t.Context(), lock.Name())
		if err != nil {
			t.Fatal(err)
		}
		h := records[0].Holds[0]
		r.Client = h.Client.ID
		r.Holds = append(r.Holds, driver.ReportedHold{Name: lock.Name(), Owner: h.Owner, Token: lock.Token(), HeldFor: time.Minute})
		r.Waits = append(r.Waits, driver.ReportedWait{Name: lock.Name(), Waited: time.Minute, Count: 3})
		locks = append(locks, lock)
	}
	if err := b.Report(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, lock := range locks {
		d, err := eye.Describe(t.Context(), lock.Name())
		if err != nil {
			t.Fatal(err)
		}
		if h := d.Holds[0]; h.Token != lock.Token() || h.HeldFor < time.Minute || len(d.Waits) != 1 || d.Waits[0].Count != 3 {
			t.Errorf("%s: got %+v, waits %+v", lock.Name(), h, d.Waits)
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	}
	if err := b.Report(t.Context(), driver.Report{Client: r.Client}); err != nil {
		t.Error(err)
	}
}

// listCluster holds locks in many slots, and wants all of them listed.
func listCluster(t *testing.T, l *holdfast.Locker, c *admin.Console, names string) {
	t.Helper()
	want, found := map[string]admin.Kind{}, map[string]admin.Kind{}
	var locks []*holdfast.Lock
	for i := range 60 {
		name := fmt.Sprintf("%s:%d", names, i)
		locks, want[name] = append(locks, mustTake(t, l.Mutex(name).Lock)), admin.KindMutex
	}
	locks, want[names+":permits"] = append(locks, mustTake(t, l.Semaphore(names+":permits", 3).Acquire)), admin.KindSemaphore

	for r, err := range c.List(t.Context(), admin.Filter{NamePrefix: names}) {
		if err != nil {
			t.Fatal(err)
		}
		found[r.Name] = r.Kind
		if r.Holders != 1 || r.Holds[0].Note != "me" || r.Holds[0].Client.Library != "holdfast" {
			t.Errorf("got %+v", r)
		}
	}
	if !maps.Equal(found, want) {
		t.Errorf("got %v, want %v", found, want)
	}
	for _, k := range locks {
		if err := k.Unlock(); err != nil {
			t.Error(err)
		}
	}
}

func mustTake(t *testing.T, lock func(context.Context, ...holdfast.Option) (*holdfast.Lock, error)) *holdfast.Lock {
	t.Helper()
	k, err := lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// noticesInCluster ends holds on several nodes while l listens on one.
func noticesInCluster(t *testing.T, d *redistest.Deployment, l *holdfast.Locker, c *admin.Console) {
	t.Helper()
	long := mustTake(t, l.Mutex("held for long").Lock) // l listens from when it is some seconds old
	listens := func(s *redistest.Server) bool { return len(s.Strings("PUBSUB", "CHANNELS", "*holdfast:client:*")) > 0 }
	await.Until(t, 10*time.Second, "the holder listens", func() bool { return slices.ContainsFunc(d.Servers(), listens) })
	for i := range 6 {
		name := fmt.Sprintf("broken:%d", i)
		take := l.Mutex(name).Lock
		if i%2 == 1 {
			take = l.Semaphore(name, 2).Acquire
		}
		lock := mustTake(t, take)
		records, err := c.Get(t.Context(), lock.Name())
		if err != nil {
			t.Fatal(err)
		}
		begun := await.NewWatch(t)
		if err := c.ForceUnlock(t.Context(), lock.Name(), records[0].Holds[0].Holder, "test"); err != nil {
			t.Fatal(err)
		}
		<-lock.Context(t.Context()).Done()
		if took := begun.Took(); took > time.Second {
			t.Errorf("the holder heard after %v, want at once", took)
		}
		var lost *driver.GoneError
		if err := lock.Err(); !errors.As(err, &lost) || lost.Reason != driver.ReasonForced {
			t.Errorf("%s: got %v, want it forced", lock.Name(), err)
		}
	}
	if err := long.Unlock(); err != nil {
		t.Error(err)
	}
}
