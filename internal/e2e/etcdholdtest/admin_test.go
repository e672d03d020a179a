package etcdholdtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// console returns a Console of a client of its own.
func console(t *testing.T) *admin.Console { return admin.New(etcdhold.New(server.Client(t), nil)) }

// get returns what is kept of one name.
func get(t *testing.T, c *admin.Console, name string) admin.Record {
	t.Helper()
	records, err := c.Get(within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return records[0]
}

// What other programs hold and wait for is shown with their leases, and is ended by
// force: a Mutex finds its key gone, etcdctl lets the next one pass.
func TestAdminOfOtherPrograms(t *testing.T) {
	t.Parallel()
	c, ctx := console(t), within(t)
	m, s := mutex(t, name(t), 60)
	if err := m.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	ctl := server.Control(t, "lock", "--ttl=30", name(t), "echo", "it runs")
	out := sessiontest.StartProgram(t, ctl)
	waitsIn(t, name(t), 2)

	r := get(t, c, name(t))
	if r.Kind != admin.KindMutex || r.Holders != 1 || r.Waiting != 1 || len(r.Waiters) != 1 {
		t.Fatalf("got %+v, want one holder and one waiter", r)
	}
	lease := fmt.Sprintf("%x", s.Lease())
	h, w := r.Holds[0], r.Waiters[0]
	if !strings.HasPrefix(h.Owner, lease+":") || h.Client.ID != lease || h.Client.Library != "" || h.Token != 0 {
		t.Errorf("got the hold %+v, want that of lease %s", h, lease)
	}
	if h.Remaining <= 30*time.Second || h.Remaining > time.Minute || w.Remaining <= 0 || w.Remaining > 30*time.Second {
		t.Errorf("got %v left of a lease of 60 s and %v of one of 30 s", h.Remaining, w.Remaining)
	}
	d, err := c.Describe(ctx, name(t))
	if err != nil || len(d.Keys) != 2 || d.Keys[0].Name != m.Key() || !strings.Contains(d.Keys[0].Value, lease) {
		t.Errorf("Describe: got %+v and error %v, want the key %s", d.Keys, err, m.Key())
	}
	if err := c.ForceUnlock(ctx, name(t), w2h(w), "too early"); !errors.Is(err, driver.ErrGone) {
		t.Errorf("ForceUnlock of a waiter: got error %v, want ErrGone", err)
	}
	if err := c.ForceUnlock(ctx, name(t), h.Holder, "stuck"); err != nil {
		t.Fatal(err)
	}
	if said, err := out.ReadString('\n'); err != nil || !strings.Contains(said, "it runs") {
		t.Errorf("etcdctl lock: got %q, %v, want that it runs", said, err)
	}
	if reasons, err := c.ForceReasons(ctx, []admin.Ended{{Name: name(t), Owner: h.Owner}}); err != nil || reasons[0] != "stuck" {
		t.Errorf("ForceReasons: got %q and error %v", reasons, err)
	}
	// The same session has the same key again: that is another hold.
	if err := m.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.ForceUnlock(ctx, name(t), h.Holder, "again"); !errors.Is(err, driver.ErrGone) {
		t.Errorf("ForceUnlock of the hold before: got error %v, want ErrGone", err)
	}
	if left(t, name(t)) != 1 {
		t.Errorf("%d keys left, want that of the Mutex", left(t, name(t)))
	}
}

func w2h(w admin.Waiter) admin.Holder { return admin.Holder{Owner: w.Owner, Holds: 1} }

// A hold that changes after it was read, and before its key is deleted, stays: a Mutex of
// the same session has the same key again, and a writer leaves its key to readers.
func TestForceUnlockOfAChangingHold(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	forcing := func(name string, change func()) {
		t.Helper()
		c := admin.New(etcdhold.New(server.Client(t, unary(func(method string, _ any, call func() error) error {
			if strings.HasSuffix(method, "/Txn") {
				change()
			}
			return call()
		})), nil))
		if err := c.ForceUnlock(ctx, name, get(t, c, name).Holds[0].Holder, "too late"); !errors.Is(err, driver.ErrGone) {
			t.Errorf("ForceUnlock of %s: got error %v, want ErrGone", name, err)
		}
		if n := left(t, name); n != 1 {
			t.Errorf("%s has %d keys left, want one", name, n)
		}
	}
	m, _ := mutex(t, name(t), 30)
	if err := m.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	forcing(name(t), func() {
		if err := errors.Join(m.Unlock(ctx), m.Lock(ctx)); err != nil {
			t.Error(err)
		}
	})
	rw, owned := locker(t).RWMutex(name(t)+" rw"), holdfast.WithOwner(ctx)
	writer, err := rw.Write.Lock(owned)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := rw.Read.Lock(owned)
	if err != nil {
		t.Fatal(err)
	}
	forcing(name(t)+" rw", func() { must.Unlock(t, writer) })
	must.Unlock(t, reader)
}

// A list has each name once, whatever is between its keys, and nothing that is no lock.
func TestList(t *testing.T) {
	t.Parallel()
	base, c := name(t), console(t)
	// A lease that ended before the list, as the machine is busy, would be missing there.
	l := locker(t, func(o *etcdhold.Options) { o.TTL = time.Minute })
	want := []string{base, base + "/", base + "/1", base + "/1/2", base + "/job"}
	for i := range 60 {
		want = append(want, fmt.Sprintf("%s many %02d", base, i))
	}
	for _, name := range want {
		defer must.Unlock(t, must.Lock(t, l, name))
	}
	// Keys of other programs come before and after that of ours, and those of names that
	// continue it between them.
	for range 4 {
		m, s := mutex(t, base, 30)
		go func() { _ = m.Lock(s.Client().Ctx()) }()
		between := fmt.Sprintf("%s/%x", base, s.Lease())
		want = append(want, between)
		defer must.Unlock(t, must.Lock(t, l, between))
	}
	waitsIn(t, base, 5+4+4)
	for key, value := range map[string]string{base + "/data": "x", base + "/feed": "no lease", base + " data/1/x": "x", base + " data/1/feed": "no lease"} {
		if _, err := observer.Put(within(t), key, value); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = observer.Delete(within(t), key) }() // for the next run
	}
	list := func(f admin.Filter) (names []string, err error) {
		for r, failed := range c.List(within(t), f) {
			if err = failed; err == nil {
				names = append(names, r.Name)
			}
		}
		slices.Sort(names)
		return names, err
	}
	// The name with a key that has no lease is no lock any more.
	slices.Sort(want) // base is the first
	got, err := list(admin.Filter{NamePrefix: base})
	if err != nil || !slices.Equal(got, want[1:]) {
		t.Errorf("got %q and error %v, want %q", got, err, want[1:])
	}
	if r := get(t, c, base); r.Kind != admin.KindOther {
		t.Errorf("got %+v, want no lock", r)
	}
	if _, err := observer.Delete(within(t), base+"/feed"); err != nil {
		t.Fatal(err)
	}
	got, err = list(admin.Filter{NamePrefix: base})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q and error %v, want %q", got, err, want)
	}
	if got, err := list(admin.Filter{NamePrefix: base + "/"}); err != nil || len(got) != 4+4 {
		t.Errorf("with a slash: got %q and error %v, want eight names", got, err)
	}
	if got, err := list(admin.Filter{NamePrefix: base + " many", Keys: 20}); !errors.Is(err, admin.ErrIncomplete) || len(got) != 20 {
		t.Errorf("with 20 keys: got %d names and error %v, want 20 and ErrIncomplete", len(got), err)
	}
}

// Of data that looks like locks a list reads its keys alone, and not what is below them.
func TestListOfData(t *testing.T) {
	t.Parallel()
	const names = 250
	for i := range names {
		if _, err := observer.Put(within(t), fmt.Sprintf("%s/%d/feed", name(t), i), "no lease"); err != nil {
			t.Fatal(err)
		}
	}
	var requests atomic.Int32
	c := admin.New(etcdhold.New(server.Client(t, unary(func(_ string, _ any, call func() error) error {
		requests.Add(1)
		return call()
	})), nil))
	for r, err := range c.List(within(t), admin.Filter{NamePrefix: name(t)}) {
		t.Errorf("got %+v and error %v, want nothing", r, err)
	}
	if n := requests.Load(); n > 2+3 {
		t.Errorf("%d requests for %d keys, want two pages and three for their leases", n, names)
	}
}

// askForLogins turns authentication on: for root with the password r, and for a user with
// rights to the keys from first to end. It skips the test where only root could hold locks.
func askForLogins(t *testing.T, s *etcdtest.Server, user, password, first, end string) {
	t.Helper()
	root, ctx := s.Client(t), within(t)
	status, err := root.Status(ctx, root.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	var patch int
	if n, _ := fmt.Sscanf(status.Version, "3.6.%d", &patch); n == 1 && patch < 12 {
		t.Skipf("etcd %s lets only root ask for its version", status.Version)
	}
	for _, do := range []func() error{
		func() error { _, err := root.UserAdd(ctx, "root", "r"); return err },
		func() error { _, err := root.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := root.UserAdd(ctx, user, password); return err },
		func() error { _, err := root.RoleAdd(ctx, user); return err },
		func() error { _, err := root.UserGrantRole(ctx, user, user); return err },
		func() error {
			_, err := root.RoleGrantPermission(ctx, user, first, end, clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := root.AuthEnable(ctx); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
}

// login returns a client of a user.
func login(t *testing.T, s *etcdtest.Server, user, password string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr()}, Username: user, Password: password, DialTimeout: timeout, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Where the password is changed while a lock is held, the store refuses to extend it: that
// is why it is lost.
func TestPasswordChangedMeanwhile(t *testing.T) {
	t.Parallel()
	s, ctx := etcdtest.Start(t), within(t)
	askForLogins(t, s, "poor", "p", "job/", clientv3.GetPrefixRangeEnd("job/"))
	l := holdfast.New(etcdhold.New(login(t, s, "poor", "p"), &etcdhold.Options{TTL: 3 * shortest}), nil)
	lock := must.Lock(t, l, "job")
	held := lock.Context(ctx)
	if _, err := login(t, s, "root", "r").UserChangePassword(ctx, "poor", "q"); err != nil {
		t.Fatal(err)
	}
	<-held.Done()
	var lost *holdfast.LostError
	if err := context.Cause(held); !errors.As(err, &lost) || lost.Reason != driver.ReasonRefused || !errors.Is(err, driver.ErrRefused) {
		t.Errorf("got %v, want a loss as the store refused", err)
	}
	must.Drain(t, l)
}

// A user with rights to the keys of a lock alone holds it, and neither ends holds nor
// learns why one was ended.
func TestAdminWithFewRights(t *testing.T) {
	t.Parallel()
	s, ctx := etcdtest.Start(t), within(t)
	askForLogins(t, s, "poor", "p", "job/", clientv3.GetPrefixRangeEnd("job/"))
	b := etcdhold.New(login(t, s, "poor", "p"), nil)
	poor, all := admin.New(b), admin.New(etcdhold.New(login(t, s, "root", "r"), nil))
	l := holdfast.New(b, nil)
	lock := must.Lock(t, l, "job")
	listening, stop := context.WithCancel(ctx)
	heard := make(chan error, 1)
	go func() { heard <- b.Notify(listening, "client", func(uint64) {}) }()

	h := get(t, poor, "job").Holds[0].Holder
	if err := poor.ForceUnlock(ctx, "job", h, "why not"); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("ForceUnlock without a right to write the reason: got error %v, want ErrRefused", err)
	}
	if get(t, poor, "job").Holders != 1 {
		t.Error("the hold is over although ForceUnlock was refused")
	}
	for _, err := range poor.List(ctx, admin.Filter{}) {
		if !errors.Is(err, driver.ErrRefused) {
			t.Errorf("List of everything: got error %v, want ErrRefused", err)
		}
	}
	if err := all.ForceUnlock(ctx, "job", h, "because"); err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Unlock: got error %v, want ErrLost", err)
	}
	stop()
	if err := <-heard; !errors.Is(err, context.Canceled) {
		t.Errorf("Notify without the right to hear of forced unlocks: got %v, want that it goes on", err)
	}
	must.Drain(t, l)
}
