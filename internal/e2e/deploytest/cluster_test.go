package deploytest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

const slots = 16384

// A cluster keeps locks in each of its slots; LockAll takes hundreds at a time.
func TestEverySlot(t *testing.T) {
	t.Parallel()
	p := at(redistest.StartDeployment(t, redistest.Cluster))
	perSlot := nameOfEachSlot()
	for name, w := range ways() {
		t.Run(name, func(t *testing.T) {
			ours, theirs := open(t, w, p, redishold.Options{}), open(t, w, p, redishold.Options{})
			ctx := await.Context(t, time.Minute)
			for rest := perSlot; len(rest) > 0; rest = rest[512:] {
				lockThem(t, ctx, ours, theirs, rest[:512])
			}
		})
	}
}

func lockThem(t *testing.T, ctx context.Context, ours, theirs *holdfast.Locker, names []string) {
	t.Helper()
	mutexes := make([]*holdfast.Mutex, len(names))
	for i, name := range names {
		mutexes[i] = ours.Mutex(name)
	}
	locks, err := holdfast.LockAll(ctx, mutexes)
	if err != nil {
		t.Fatalf("LockAll of %d names from %q on: %v", len(names), names[0], err)
	}
	for _, k := range locks {
		if k.Token() == 0 {
			t.Errorf("%q has no token", k.Name())
		}
	}
	for _, name := range names[:3] {
		if _, err := theirs.TryLock(ctx, name); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("TryLock of %q, which is held: got %v, want ErrBusy", name, err)
		}
	}
	if err := locks.Unlock(); err != nil {
		t.Errorf("Unlock of %d names from %q on: %v", len(names), names[0], err)
	}
}

// nameOfEachSlot returns a name for every slot of a cluster.
func nameOfEachSlot() []string {
	names := make([]string, slots)
	for i, missing := 0, slots; missing > 0; i++ {
		name := fmt.Sprintf("slot:%d", i)
		if s := redistest.Slot(name); names[s] == "" {
			names[s] = name
			missing--
		}
	}
	return names
}

// A slot on the move costs no lock: what is held stays held and can be given
// back, and what is asked for is refused to nobody for longer than the move.
func TestSlotOnTheMove(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Cluster)
	for name, w := range ways() {
		t.Run(name, func(t *testing.T) {
			holder, waiter := open(t, w, at(d), redishold.Options{}), open(t, w, at(d), redishold.Options{})
			moveUnderWaiter(t, d, holder, waiter)
			moveWithHold(t, d, holder, waiter)
		})
	}
}

// moveUnderWaiter unlocks while the slot is between two nodes. The next acquire
// needs keys that are partly here, partly there; it must neither be granted
// twice nor fail.
func moveUnderWaiter(t *testing.T, d *redistest.Deployment, holder, waiter *holdfast.Locker) {
	t.Helper()
	ctx := await.Context(t, 20*time.Second)
	const name = "moving:waiter"
	lock, err := holder.Lock(ctx, name)
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	m := startMove(t, d, name)
	asked, again := said(d, "ASK"), said(d, "TRYAGAIN")
	wantRefused(t, ctx, waiter, name)
	if err := m.Move(name); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, ctx, waiter, name) // its counter is at the old node, the lock at the new one
	time.Sleep(2 * time.Second)       // more than one renewal of the TTL
	if err := lock.Err(); err != nil {
		t.Fatalf("hold while its slot moves: %v", err)
	}
	next := lockLater(ctx, waiter, name)
	if err := lock.Unlock(); err != nil {
		t.Errorf("Unlock while the slot moves: %v", err)
	}
	awaitSaid(t, d, "ASK", asked)
	awaitSaid(t, d, "TRYAGAIN", again)
	if len(next) != 0 {
		t.Errorf("Lock was answered before the move ended: %+v", <-next)
	}
	finish(t, m)
	awaitNext(t, next, lock.Token())
}

// wantRefused wants a lock that is held to be refused: as busy, or because its
// keys are at two nodes and the server said so.
func wantRefused(t *testing.T, ctx context.Context, l *holdfast.Locker, name string) {
	t.Helper()
	_, err := l.TryLock(ctx, name)
	var reply *redishold.ReplyError
	between := errors.As(err, &reply) && strings.HasPrefix(reply.Text, "TRYAGAIN ") && errors.Is(err, driver.ErrNotExecuted)
	if !errors.Is(err, holdfast.ErrBusy) && !between {
		t.Errorf("TryLock of a held lock whose slot moves: got %v, want ErrBusy, or TRYAGAIN with ErrNotExecuted", err)
	}
}

// said counts the answers of all nodes that begin with an error's code.
func said(d *redistest.Deployment, code string) int {
	sum := 0
	for _, s := range d.Servers() {
		info, _ := s.Do("INFO", "errorstats").(string)
		_, rest, _ := strings.Cut(info, "errorstat_"+code+":count=")
		count, _, _ := strings.Cut(rest, "\r\n")
		n, _ := strconv.Atoi(count)
		sum += n
	}
	return sum
}

// awaitSaid wants the nodes to give more answers of a kind than before.
func awaitSaid(t *testing.T, d *redistest.Deployment, code string, before int) {
	t.Helper()
	if !await.Eventually(5*time.Second, func() bool { return said(d, code) > before }) {
		t.Errorf("no node answered %s while the slot moved", code)
	}
}

// moveWithHold moves a slot together with a lock that is held.
func moveWithHold(t *testing.T, d *redistest.Deployment, holder, waiter *holdfast.Locker) {
	t.Helper()
	ctx := await.Context(t, 20*time.Second)
	const name = "moving:hold"
	lock, err := holder.Lock(ctx, name)
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	next := lockLater(ctx, waiter, name)
	finish(t, startMove(t, d, name))
	time.Sleep(2 * time.Second) // a renewal at the new place
	if err := lock.Err(); err != nil {
		t.Fatalf("hold after its slot moved: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Errorf("Unlock after the slot moved: %v", err)
	}
	awaitNext(t, next, lock.Token())
}

func startMove(t *testing.T, d *redistest.Deployment, name string) *redistest.Migration {
	t.Helper()
	from := d.Master(name)
	to := d.Masters()[0]
	if to.Addr() == from.Addr() {
		to = d.Masters()[1]
	}
	m, err := d.MigrateSlot(redistest.Slot(name), to)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func finish(t *testing.T, m *redistest.Migration) {
	t.Helper()
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}
}

// grant is what came of a Lock, and when.
type grant struct {
	lock *holdfast.Lock
	err  error
	at   time.Time
}

func lockLater(ctx context.Context, l *holdfast.Locker, name string) <-chan grant {
	next := make(chan grant, 1)
	go func() {
		k, err := l.Lock(ctx, name)
		next <- grant{k, err, time.Now()}
	}()
	return next
}

// awaitNext wants the lock to be granted soon.
func awaitNext(t *testing.T, next <-chan grant, before uint64) {
	t.Helper()
	from := time.Now()
	g := <-next
	if g.err != nil {
		t.Fatalf("the next Lock: %v", g.err)
	}
	if took := g.at.Sub(from); took > 2*time.Second {
		t.Errorf("the next Lock came %v after the move, want at most 2s", took)
	}
	if g.lock.Token() <= before {
		t.Errorf("token %d after %d", g.lock.Token(), before)
	}
	if err := g.lock.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// A node joins, takes over slots and leaves again while every client takes locks all the
// time: no call fails, no lock is lost.
func TestNodeJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Cluster)
	ctx := await.Context(t, 2*time.Minute)
	held, stops := map[string]*holdfast.Lock{}, map[string]func() (int, error){}
	for name, w := range ways() {
		l := open(t, w, at(d), redishold.Options{})
		lock, err := l.Lock(ctx, "joining:held by "+name)
		if err != nil {
			t.Fatal(err)
		}
		held[name], stops[name] = lock, takeAllTheTime(ctx, l, 4)
	}
	node, err := d.AddNode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		m, err := d.MigrateSlot(redistest.Slot(fmt.Sprintf("joining:%d", i)), node)
		if err != nil {
			t.Fatal(err)
		}
		finish(t, m)
	}
	if err := d.RemoveNode(node); err != nil {
		t.Fatal(err)
	}
	for name, stop := range stops {
		taken, err := stop()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if taken < 50 {
			t.Errorf("%s: only %d locks were taken", name, taken)
		}
		if err := held[name].Unlock(); err != nil {
			t.Errorf("%s: Unlock of the lock held all the time: %v", name, err)
		}
	}
}

// takeAllTheTime takes and releases locks until the function that it returns
// is called, which says how many, and what failed.
func takeAllTheTime(ctx context.Context, l *holdfast.Locker, workers int) (stop func() (int, error)) {
	over := make(chan struct{})
	var mu sync.Mutex
	var taken int
	var errs []error
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := worker; ; i += workers {
				select {
				case <-over:
					return
				default:
				}
				err := l.Mutex(fmt.Sprintf("joining:%d", i%16)).Do(ctx, func(context.Context, *holdfast.Lock) error { return nil })
				mu.Lock()
				taken++
				if err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
			}
		})
	}
	return func() (int, error) {
		close(over)
		wg.Wait()
		return taken, errors.Join(errs...)
	}
}
