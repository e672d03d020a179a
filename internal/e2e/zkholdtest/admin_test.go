package zkholdtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// console returns a Console of a client of its own.
func console(t *testing.T, opts *zkhold.Options) *admin.Console { return admin.New(open(t, opts)) }

// get returns what is kept of one name.
func get(t *testing.T, c *admin.Console, name string) admin.Record {
	t.Helper()
	records, err := c.Get(within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return records[0]
}

// put makes a node of another program.
func put(t *testing.T, path, data string, flags int32) (made string) {
	t.Helper()
	dir := path[:strings.LastIndexByte(path, '/')]
	for i := 1; i <= len(dir); i++ {
		if i == len(dir) || dir[i] == '/' {
			if _, err := observer.Create(dir[:i], nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				t.Fatal(err)
			}
		}
	}
	made, err := observer.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = observer.Delete(made, -1) })
	return made
}

// What other programs hold and wait for is shown with their sessions and their data, of
// each kind, with nothing that ZooKeeper does not say, and can be ended by force.
func TestAdminOfOtherPrograms(t *testing.T) {
	t.Parallel()
	const kazoo, curator, permit = "9f2e35a415ff4d0b8d7a3c1c8c4d6c4b__lock__", "_c_9f2e35a4-15ff-4d0b-8d7a-3c1c8c4d6c4b-", "lease-"
	c, base := console(t, nil), "/"+name(t)
	put(t, base+"/m/"+kazoo, "host-7", zk.FlagEphemeralSequential)
	put(t, base+"/m/"+curator+"lock-", "10.0.0.7", zk.FlagEphemeralSequential)
	put(t, base+"/rw/"+curator+"__READ__", "", zk.FlagEphemeralSequential)
	put(t, base+"/rw/"+curator+"__WRIT__", "", zk.FlagEphemeralSequential)
	for range 2 {
		put(t, base+"/s/leases/"+curator+permit, "", zk.FlagEphemeralSequential)
	}
	put(t, base+"/s/locks/_c_0f2e35a4-15ff-4d0b-8d7a-3c1c8c4d6c4b-lock-", "", zk.FlagEphemeralSequential)
	session := fmt.Sprintf("%x", observer.SessionID())

	m, rw, s := get(t, c, name(t)+"/m"), get(t, c, name(t)+"/rw"), get(t, c, name(t)+"/s")
	for _, r := range []admin.Record{m, rw, s} {
		for _, h := range r.Holds {
			if !strings.HasPrefix(h.Owner, session+":") || h.Client != (admin.Client{ID: session}) || h.Token != 0 || h.Remaining >= 0 || h.HeldFor != 0 {
				t.Errorf("got the hold %+v, want one of session %s and no more", h, session)
			}
		}
		if r.Waiting != 1 || len(r.Waiters) != 1 || !strings.HasPrefix(r.Waiters[0].Owner, session+":") || r.Remaining >= 0 {
			t.Errorf("got %+v, want one waiter of session %s", r, session)
		}
	}
	if m.Kind != admin.KindMutex || m.Holders != 1 || m.Holds[0].Note != "host-7" || m.Waiters[0].Note != "10.0.0.7" {
		t.Errorf("got the mutex %+v, want that of host-7, for which 10.0.0.7 waits", m)
	}
	if rw.Kind != admin.KindReadWrite || rw.Holders != 1 || rw.Holds[0].Mode != driver.Shared || rw.Waiters[0].Mode != driver.Exclusive {
		t.Errorf("got the read-write lock %+v, want a reader, and a writer that waits", rw)
	}
	if s.Kind != admin.KindSemaphore || s.Holders != 2 || s.Permits != 0 || s.Free != 0 || s.Waiters[0].Mode != driver.Permit {
		t.Errorf("got the semaphore %+v, want two holders of a number of permits that is not known", s)
	}
	d, err := c.Describe(within(t), name(t)+"/m")
	if err != nil || len(d.Keys) != 2 || !strings.HasPrefix(d.Keys[0].Name, base+"/m/"+kazoo) || !strings.Contains(d.Keys[0].Value, session) {
		t.Errorf("Describe: got %+v and error %v, want the nodes", d.Keys, err)
	}

	waiter := admin.Holder{Owner: m.Waiters[0].Owner, Holds: 1}
	if err := c.ForceUnlock(within(t), m.Name, waiter, "too early"); !errors.Is(err, driver.ErrGone) {
		t.Errorf("ForceUnlock of a waiter: got error %v, want ErrGone", err)
	}
	ended := []admin.Ended{{Name: m.Name, Owner: m.Holds[0].Owner}, {Name: s.Name, Owner: s.Holds[0].Owner}}
	for _, r := range []admin.Record{m, s} {
		if err := c.ForceUnlock(within(t), r.Name, r.Holds[0].Holder, "stuck "+r.Name); err != nil {
			t.Fatal(err)
		}
		if err := c.ForceUnlock(within(t), r.Name, r.Holds[0].Holder, "again"); !errors.Is(err, driver.ErrGone) {
			t.Errorf("ForceUnlock of the same hold: got error %v, want ErrGone", err)
		}
	}
	if r := get(t, c, m.Name); r.Kind != admin.KindMutex || r.Holds[0].Owner != waiter.Owner {
		t.Errorf("got %+v, want that who waited holds", r)
	}
	if r := get(t, c, s.Name); r.Holders != 1 || r.Holds[0].Owner != s.Holds[1].Owner {
		t.Errorf("got %+v, want the other permit", r)
	}
	if reasons, err := c.ForceReasons(within(t), ended); err != nil || !slices.Equal(reasons, []string{"stuck " + m.Name, "stuck " + s.Name}) {
		t.Errorf("ForceReasons: got %q and error %v", reasons, err)
	}
}

// A waiter for a permit is shown as such, by the name of its client, once.
func TestGetOfASemaphore(t *testing.T) {
	t.Parallel()
	c := console(t, nil)
	for range 2 {
		lock, err := locker(t, nil).Semaphore(name(t), 2).TryAcquire(within(t))
		if err != nil {
			t.Fatal(err)
		}
		defer must.Unlock(t, lock)
	}
	for range 2 {
		waiter := locker(t, nil).Semaphore(name(t), 2)
		go func() {
			if lock, err := waiter.Acquire(within(t)); err == nil {
				_ = lock.Unlock()
			}
		}()
	}
	// The first of them has a node in leases, too.
	await.Until(t, timeout, "two wait", func() bool {
		return len(nodes(t, name(t)+"/locks")) == 2 && len(nodes(t, name(t)+"/leases")) == 3
	})
	r := get(t, c, name(t))
	if r.Kind != admin.KindSemaphore || r.Holders != 2 || r.Permits != 2 || r.Free != 0 || r.Waiting != 2 {
		t.Fatalf("got %+v, want two holders of two permits, and two who wait", r)
	}
	for _, h := range r.Holds {
		if h.Client.Library != "holdfast" || h.Token == 0 || h.Mode != driver.Permit {
			t.Errorf("got the hold %+v, want one of this library", h)
		}
	}
	for _, w := range r.Waiters {
		if w.Client.Library != "holdfast" || w.Client.ID == "" || w.Mode != driver.Permit {
			t.Errorf("got the waiter %+v, want one of this library", w)
		}
	}
}

// Who is refused reads the note of the holder, and nothing else of its node.
func TestHolderOfABusyLock(t *testing.T) {
	t.Parallel()
	l := sessiontest.LockerOf(t, open(t, nil))
	defer must.Unlock(t, must.Lock(t, l, name(t)))
	var busy *holdfast.BusyError
	note := get(t, console(t, nil), name(t)).Holds[0].Note
	if _, err := locker(t, nil).TryLock(within(t), name(t)); !errors.As(err, &busy) || busy.Holder != note || strings.Contains(note, "\n") {
		t.Errorf("got error %v, want that %q holds it", err, note)
	}
}

// Forced unlocks at the same time keep all of their reasons, and old ones make way.
func TestManyForceUnlocks(t *testing.T) {
	t.Parallel()
	const n = 30
	const answered = 400 * time.Millisecond                             // Unlock asks for the reason for half a second at most
	opts := &zkhold.Options{Root: "/" + name(t), TTL: 60 * time.Second} // a short session does not survive a slow answer
	c, l := console(t, opts), locker(t, opts)
	ended := make([]admin.Ended, n)
	force := func(i int, reason string) {
		job := fmt.Sprint("job ", i)
		lock := must.Lock(t, l, job)
		h := get(t, c, job).Holds[0].Holder
		ended[i] = admin.Ended{Name: job, Owner: h.Owner}
		if err := c.ForceUnlock(within(t), job, h, reason); err != nil {
			t.Error(err)
		}
		began := time.Now()
		err := lock.Unlock()
		switch lost := errors.Is(err, holdfast.ErrLost); {
		case lost && strings.Contains(err.Error(), reason):
		case (err == nil || lost) && time.Since(began) > answered:
			// Unlock cannot know what became of a request that was not answered in time.
		default:
			t.Errorf("Unlock: got error %v, want that the lock was lost, and why", err)
		}
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { force(i, fmt.Sprint("reason ", i)) })
	}
	wg.Wait()
	reasons, err := c.ForceReasons(within(t), ended)
	for i, reason := range reasons {
		if want := fmt.Sprint("reason ", i); err != nil || reason != want {
			t.Errorf("got %q and error %v, want %q", reason, err, want)
		}
	}
	first := ended[0]
	for i := range 3 {
		force(i, strings.Repeat("long", 8<<10))
	}
	reasons, err = c.ForceReasons(within(t), []admin.Ended{first, ended[2]})
	if err != nil || reasons[0] != "" || len(reasons[1]) != 32<<10 {
		t.Errorf("got reasons of %d and %d bytes and error %v, want the last one only", len(reasons[0]), len(reasons[1]), err)
	}
	if data, _, err := observer.Get(opts.Root + "/holdfast.forced"); err != nil || len(data) > 64<<10 {
		t.Errorf("the node has %d bytes and error %v, want 64 KB at most", len(data), err)
	}
}

// A list has each name once, as it was given, and nothing that is no lock.
func TestList(t *testing.T) {
	t.Parallel()
	root := "/" + name(t)
	opts := &zkhold.Options{Root: root, TTL: 60 * time.Second}
	c, l := console(t, opts), locker(t, opts)
	want := []string{"job", "job/", "job/1", "job/1/2", "job/lock-0000000001", "jobs", "a b/é日本/\x00", "zookeeper", "sem"}
	for _, name := range want[:len(want)-1] {
		defer must.Unlock(t, must.Lock(t, l, name))
	}
	permit, err := l.Semaphore("sem", 2).TryAcquire(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer must.Unlock(t, permit)
	waits, free := locker(t, opts).Semaphore("sem", 1), must.Lock(t, l, "free")
	go func() {
		if lock, err := waits.Acquire(within(t)); err == nil {
			_ = lock.Unlock()
		}
	}()
	must.Unlock(t, free)
	forced := must.Lock(t, l, "forced")
	if err := c.ForceUnlock(within(t), "forced", get(t, c, "forced").Holds[0].Holder, "for its reason"); err != nil {
		t.Fatal(err)
	}
	if err := forced.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Unlock: got error %v, want ErrLost", err)
	}
	put(t, root+"/data/x", "", 0)
	put(t, root+"/no%zz/lock-", "", zk.FlagEphemeralSequential)
	list := func(f admin.Filter) (names []string, err error) {
		for r, failed := range c.List(within(t), f) {
			if err = failed; err == nil {
				names = append(names, r.Name)
			}
		}
		slices.Sort(names)
		return names, err
	}
	slices.Sort(want)
	if got, err := list(admin.Filter{}); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q and error %v, want %q", got, err, want)
	}
	for prefix, want := range map[string][]string{
		"job/": {"job/", "job/1", "job/1/2", "job/lock-0000000001"}, "job/1/": {"job/1/2"}, "jobs": {"jobs"},
		"sem": {"sem"}, "sem/": nil, "a b/é": {"a b/é日本/\x00"}, "none/at/all": nil,
	} {
		if got, err := list(admin.Filter{NamePrefix: prefix}); err != nil || !slices.Equal(got, want) {
			t.Errorf("with %q: got %q and error %v, want %q", prefix, got, err, want)
		}
	}
	if got, err := list(admin.Filter{Keys: 5}); !errors.Is(err, admin.ErrIncomplete) || len(got) >= len(want) {
		t.Errorf("with 5 nodes: got %q and error %v, want some and ErrIncomplete", got, err)
	}
	// What may not be read is said to be missing, after the rest.
	if _, err := observer.Create(root+"/secret", nil, 0, zk.DigestACL(zk.PermAll, "user", "password")); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = observer.Delete(root+"/secret", -1) }() // for the next run
	if got, err := list(admin.Filter{}); !errors.Is(err, driver.ErrRefused) || !slices.Equal(got, want) {
		t.Errorf("beside a secret: got %q and error %v, want %q and ErrRefused", got, err, want)
	}
}

// Where its rights do not reach for the reason a hold is not ended.
func TestForceUnlockWithFewRights(t *testing.T) {
	t.Parallel()
	root := "/" + name(t)
	put(t, root+"/x", "", 0)
	if _, err := observer.Create(root+"/holdfast.forced", nil, 0, zk.DigestACL(zk.PermAll, "user", "password")); err != nil {
		t.Fatal(err)
	}
	opts := &zkhold.Options{Root: root}
	c, lock := console(t, opts), must.Lock(t, locker(t, opts), "job")
	if err := c.ForceUnlock(within(t), "job", get(t, c, "job").Holds[0].Holder, "why not"); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("got error %v, want ErrRefused", err)
	}
	must.Unlock(t, lock)
}

// A list of many locks takes three requests for each.
func TestListOfManyLocks(t *testing.T) {
	t.Parallel()
	const n = 400
	root := "/" + name(t)
	l := locker(t, &zkhold.Options{Root: root, TTL: 60 * time.Second})
	locks := make([]*holdfast.Lock, n)
	manytest.Do(n, func(i int) { locks[i] = must.Lock(t, l, fmt.Sprintf("%d/%d", i%40, i)) })
	var count zktest.Count
	c := console(t, &zkhold.Options{Root: root, Dial: count.Dialer})
	began, got := time.Now(), 0
	for r, err := range c.List(within(t), admin.Filter{}) {
		if err != nil || r.Holders != 1 || r.Holds[0].Client.Library != "holdfast" {
			t.Fatalf("got %+v and error %v", r, err)
		}
		got++
	}
	t.Logf("%d locks in %v, %d requests", got, time.Since(began), count.All())
	if most := 3*n + 40 + 10; got != n || count.All() > most {
		t.Errorf("got %d locks by %d requests, want %d by %d at most", got, count.All(), n, most)
	}
	manytest.Do(n, func(i int) { must.Unlock(t, locks[i]) })
}

// A Console keeps no session that nobody needs, and opens one where there is none.
func TestViewOpensASession(t *testing.T) {
	t.Parallel()
	var count zktest.Count
	b := open(t, &zkhold.Options{Dial: count.Dialer})
	c := admin.New(b)
	get(t, c, name(t))
	await.Until(t, timeout, "the session has ended", func() bool { return count.Closed() == 1 })
	get(t, c, name(t))
	b.Close()
	if _, err := c.Get(within(t), name(t)); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("closed: got error %v, want ErrClosed", err)
	}
}
