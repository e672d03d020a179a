package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
	"github.com/holdfast-go/holdfast/redishold"
)

// The workloads: what a goroutine of a worker does in one step. The first
// letter of a name says which workload it belongs to.
const (
	mutexes    = "mutex"
	chains     = "chain" // mutexes that goroutines of a process pass on
	bursts     = "burst" // mutexes that goroutines of a process take one after the other, without hand-offs
	fairs      = "fair"
	readWrites = "rw"
	semaphores = "semaphore"
	lockAlls   = "all"
)

// permits is how many every semaphore has.
const permits = 2

// epoch is for how long new operations use the same names.
const epoch = 2 * time.Second

// workload does one step.
type workload func(*turn)

// turn is a goroutine of a worker in a round.
type turn struct {
	*user
	number int
	round  int
	ctx    context.Context // ends with the round: no operation is cut short by it but sleep is
	random *rand.Rand
	mine   *holdfast.Locker // of this goroutine alone: TryLock then answers what the store says
}

func newTurn(w *user, o order, number int, ctx context.Context) *turn {
	return &turn{user: w, number: number, round: o.Round, ctx: ctx, random: rand.New(rand.NewPCG(o.Seed, uint64(number))), mine: w.lockers[1+number]}
}

// workloads returns those of a worker. The goroutine of each has a Locker of its
// own beside the shared one.
func (w *user) workloads() []workload {
	all := []struct {
		kind string
		do   workload
	}{
		{mutexes, (*turn).mutex},
		{mutexes, (*turn).mutex},
		{mutexes, (*turn).mutex},
		{chains, (*turn).chained},
		{chains, (*turn).chained},
		{bursts, (*turn).burst},
		{bursts, (*turn).burst},
		{bursts, (*turn).burst},
		{fairs, (*turn).fair},
		{readWrites, (*turn).readOrWrite},
		{readWrites, (*turn).readOrWrite},
		{semaphores, (*turn).semaphore},
		{lockAlls, (*turn).lockAll},
	}
	var chosen []workload
	has := kinds(w.backend.Info().Caps)
	for _, a := range all {
		if (w.Only == "" || w.Only == a.kind) && (w.Store == "" || has[a.kind]) {
			chosen = append(chosen, a.do)
			w.locker()
		}
	}
	return chosen
}

// name returns one of n current names of a workload.
func (t *turn) name(kind string, n int) string {
	return fmt.Sprintf("%s:r%d:%d:%d", kind, t.round, time.Now().UnixNano()/int64(epoch), t.random.IntN(n))
}

// nap sleeps for up to most, or until the round ends.
func (t *turn) nap(most time.Duration) {
	if most <= 0 {
		return
	}
	select {
	case <-time.After(time.Duration(t.random.Int64N(int64(most)))):
	case <-t.ctx.Done():
	}
}

// keep is how long to hold a lock: mostly short, at times long enough to be
// renewed several times.
func (t *turn) keep() time.Duration {
	if t.random.IntN(t.Long) == 0 {
		return time.Duration(t.random.Int64N(int64(2 * min(t.TTL, 2*time.Second))))
	}
	return 5 * time.Millisecond
}

// request returns what a history shows of a call that waits for a lock of a kind.
func (t *turn) request(l *holdfast.Locker, k worker.Kind, name string) judge.Request {
	r := k.Request(l, name, permits)
	r.Lease = t.TTL
	return r
}

// hold takes a lock, uses what it protects, and releases it.
func (t *turn) hold(ctx context.Context, r judge.Request, keep time.Duration) {
	k, op, err := t.log.Take(ctx, r)
	if err != nil {
		t.judge(ctx, r, err)
		return
	}
	t.use(k, op, r.Side, keep)
	t.give(k, op)
}

// judge reports errors that no fault explains: Lock without a limit of time has
// to wait until the store is back.
func (t *turn) judge(ctx context.Context, r judge.Request, err error) {
	for _, wrong := range []error{holdfast.ErrMismatch, holdfast.ErrDeadlock, holdfast.ErrUnlocked, errors.ErrUnsupported} {
		if errors.Is(err, wrong) {
			t.broken(err)
			return
		}
	}
	var refusal *redishold.ReplyError
	if errors.As(err, &refusal) && strings.Contains(refusal.Text, "OOM ") { // Redis 6.2 puts words before it
		pause(ctx, time.Second) // to the model each of these calls is one whose outcome it does not know
		return
	}
	if _, limited := ctx.Deadline(); !limited && !r.Try && !errors.Is(err, errUnknown) {
		t.broken(fmt.Errorf("Lock(%q) without a limit gave up: %w", r.Name, err))
	}
}

// use reads and writes what a lock protects, in between for as long as keep, or
// until the lock is lost.
func (t *turn) use(k *holdfast.Lock, op int64, side judge.Side, keep time.Duration) {
	t.held.add(k, op)
	if side.Alone() && k.Err() == nil {
		t.log.Write(judge.Event{What: judge.Read, Op: op})
	}
	select {
	case <-time.After(time.Duration(t.random.Int64N(int64(keep) + 1))):
	case <-k.Context(context.Background()).Done():
	case <-t.ctx.Done():
	}
	if side.Alone() && k.Err() == nil {
		t.log.Write(judge.Event{What: judge.Wrote, Op: op})
	}
}

func (t *turn) give(k *holdfast.Lock, op int64) {
	_ = t.log.Give(k, op) // it is in the history
	t.held.remove(k, op)
}

// unknown marks an error after which the store may have granted the lock, and
// has it taken back.
func unknown(k *holdfast.Lock, err error) (*holdfast.Lock, error) {
	if err != nil {
		err = fmt.Errorf("unknown: %s: %w", err.Error(), errUnknown)
	}
	return k, err
}

var errUnknown = errors.New("outcome unknown")

func (t *turn) mutex() {
	name, background := t.name(mutexes, 6), context.Background()
	r := t.request(t.mine, worker.Mutex, name)
	switch n := t.random.IntN(100); {
	case n < 40:
		r.Try = true
		r.Lock = func(ctx context.Context) (*holdfast.Lock, error) { return t.mine.TryLock(ctx, name) }
		t.hold(background, r, t.keep())
	case n < 45:
		r.Lock = func(ctx context.Context) (*holdfast.Lock, error) {
			return unknown(t.mine.TryLock(ctx, name, holdfast.Wait(50*time.Millisecond)))
		}
		t.hold(background, r, t.keep())
	case n < 50:
		ctx, cancel := context.WithTimeout(background, time.Duration(t.random.Int64N(int64(100*time.Millisecond))))
		defer cancel()
		t.hold(ctx, r, t.keep())
	case n < 54:
		t.leased(name)
	case n < 58:
		t.reentrant(name)
	default:
		t.hold(background, r, t.keep())
	}
}

// chained takes a mutex that the goroutines of the process pass on. One that gives up may
// be the next.
func (t *turn) chained() {
	name := t.name(chains, 1)
	ctx, cancel := t.timeout()
	defer cancel()
	t.hold(ctx, t.request(t.shared, worker.Mutex, name), t.keep())
}

// burst takes a mutex several times, holds it for hardly any time, and pauses for a moment. The
// option Note turns hand-offs off, so that most releases are quiet: see docs/internals.md. At times
// all such goroutines of the process give up at once, and want nothing for a while. Then other
// processes learn only from a notification that the mutex is free.
func (t *turn) burst() {
	name := t.name(bursts, 1)
	r := t.request(t.shared, worker.Mutex, name)
	r.Lock = func(ctx context.Context) (*holdfast.Lock, error) {
		return t.shared.Mutex(name).Lock(ctx, holdfast.Note("burst"))
	}
	ctx, rest := t.callers.share(t.random)
	for range 10 {
		t.hold(ctx, r, 0)
		if ctx.Err() != nil {
			pause(t.ctx, rest)
			return
		}
		t.nap(2 * time.Millisecond)
	}
}

// callers share a context, so that they give up at the same time. Several goroutines may use it.
type callers struct {
	mu     sync.Mutex
	ctx    context.Context // nil before the first call of share
	cancel context.CancelFunc
	rest   time.Duration
}

// share returns the context, and for how long its callers want nothing after its end.
func (c *callers) share(r *rand.Rand) (ctx context.Context, rest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil || c.ctx.Err() != nil {
		lasts := 4 * time.Second
		if r.IntN(3) > 0 {
			lasts = 20*time.Millisecond + time.Duration(r.Int64N(int64(400*time.Millisecond)))
		}
		c.end()
		c.ctx, c.cancel = context.WithTimeout(context.Background(), lasts)
		c.rest = calmLimit + time.Duration(r.Int64N(int64(time.Second)))
	}
	return c.ctx, c.rest
}

// end releases the context.
func (c *callers) end() {
	if c.cancel != nil {
		c.cancel()
	}
}

// timeout returns a context that ends within 100 ms, one time of five.
func (t *turn) timeout() (context.Context, context.CancelFunc) {
	if t.random.IntN(5) == 0 {
		return context.WithTimeout(context.Background(), time.Duration(t.random.Int64N(int64(100*time.Millisecond))))
	}
	return context.WithCancel(context.Background())
}

// leased takes a lock that ends by itself, and lets it.
func (t *turn) leased(name string) {
	lease := 150 * time.Millisecond
	r := t.request(t.mine, worker.Mutex, name)
	r.Lease, r.Fixed, r.Try = lease, true, true
	r.Lock = func(ctx context.Context) (*holdfast.Lock, error) {
		return t.mine.TryLock(ctx, name, holdfast.FixedLease(lease))
	}
	k, op, err := t.log.Take(context.Background(), r)
	if err != nil {
		t.judge(context.Background(), r, err)
		return
	}
	t.held.add(k, op)
	<-k.Context(context.Background()).Done()
	t.held.remove(k, op)
}

// reentrant holds a lock twice. The history shows it as one hold.
func (t *turn) reentrant(name string) {
	ctx := holdfast.WithOwner(context.Background())
	r := t.request(t.mine, worker.Mutex, name)
	k, op, err := t.log.Take(ctx, r)
	if err != nil {
		t.judge(ctx, r, err)
		return
	}
	t.held.add(k, op)
	again, err := t.mine.TryLock(ctx, name)
	switch {
	case err == nil && again != k:
		t.broken(errors.New("a lock was re-entered, and is another"))
	case errors.Is(err, holdfast.ErrDeadlock), errors.Is(err, errors.ErrUnsupported):
		t.broken(err)
	}
	t.use(k, op, judge.Exclusive, t.keep())
	if err == nil {
		if err := again.Unlock(); err == nil && k.Err() != nil && !errors.Is(k.Err(), holdfast.ErrLost) {
			t.broken(fmt.Errorf("the first Unlock of two has ended the lock: %w", k.Err()))
		}
	}
	t.give(k, op)
}

func (t *turn) fair() {
	r := t.request(t.shared, worker.Fair, t.name(fairs, 1))
	ctx, cancel := t.timeout()
	defer cancel()
	t.hold(ctx, r, t.keep())
}

func (t *turn) readOrWrite() {
	name := t.name(readWrites, 2)
	if t.random.IntN(4) == 0 {
		t.hold(context.Background(), t.request(t.shared, worker.Writer, name), t.keep())
		return
	}
	t.hold(context.Background(), t.request(t.shared, worker.Reader, name), t.keep())
	t.nap(20 * time.Millisecond) // a writer does not get in where reading never pauses
}

func (t *turn) semaphore() {
	t.hold(context.Background(), t.request(t.shared, worker.Permit, t.name(semaphores, 1)), t.keep())
}

// lockAll takes three mutexes of five at once, of several kinds.
func (t *turn) lockAll() {
	var ms []*holdfast.Mutex
	at := time.Now().UnixNano() / int64(epoch)
	as, ops := map[string]worker.Kind{}, map[string]int64{}
	var r judge.Request
	for _, n := range t.random.Perm(5)[:3] {
		k, name := t.oneOfAll(n), fmt.Sprintf("%s:r%d:%d:%d", lockAlls, t.round, at, n)
		ms, as[name] = append(ms, k.Of(t.shared, name)), k
	}
	for _, m := range ms {
		r = t.request(t.shared, as[m.Name()], m.Name())
		r.Try = true // some of them are held by a waiter for the others
		ops[m.Name()] = t.log.Called(r)
	}
	ctx, cancel := t.timeout()
	defer cancel()
	locks, err := holdfast.LockAll(ctx, ms)
	if err != nil {
		for _, op := range ops {
			t.log.Answered(op, nil, err)
		}
		if len(locks) != 0 {
			t.broken(fmt.Errorf("LockAll returned %d locks and %w", len(locks), err))
		}
		t.judge(ctx, r, err)
		return
	}
	t.together(locks, ops, as)
}

// oneOfAll returns the kind of the n-th mutex: on Redis one is fair, and one is read or written,
// beside the plain ones.
func (t *turn) oneOfAll(n int) worker.Kind {
	switch {
	case t.Store != "" || n > 1:
		return worker.Mutex
	case n == 1:
		return worker.Fair
	case t.random.IntN(2) == 0:
		return worker.Writer
	default:
		return worker.Reader
	}
}

// together uses several locks that were taken at once.
func (t *turn) together(locks holdfast.Locks, ops map[string]int64, as map[string]worker.Kind) {
	for _, k := range locks {
		t.log.Answered(ops[k.Name()], k, nil)
		t.held.add(k, ops[k.Name()])
	}
	for i, k := range locks {
		most := time.Duration(0)
		if i == len(locks)-1 {
			most = t.keep()
		}
		t.use(k, ops[k.Name()], as[k.Name()].Side(), most)
	}
	for _, k := range slices.Backward(locks) {
		t.log.Write(judge.Event{What: judge.Unlock, Op: ops[k.Name()]})
	}
	err := locks.Unlock()
	for _, k := range locks {
		t.log.Write(judge.Event{What: judge.Unlocked, Op: ops[k.Name()], Err: judge.ErrorWord(err)})
		t.held.remove(k, ops[k.Name()])
	}
}
