package work

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// name is what those lock who fight for one name.
const name = "one"

// writes says that one in so many locks of a read-write lock is a write.
const writes = 10

// task is what one goroutine does.
type task struct {
	take   func(ctx context.Context, n int64) (peer.Held, rule, error) // n counts
	shared bool                                                        // others want the same name
}

func newTask(p peer.Peer, plan Plan, goroutine int) (task, error) {
	switch w := plan.Work; w.Kind {
	case Own:
		return ownTask(p, plan.Process*w.Goroutines+goroutine, w.NameBytes), nil
	case One:
		return always(p.Lock, exclusive()), nil
	case Some:
		return someTask(p, w.Names, uint64(plan.Process*w.Goroutines+goroutine)), nil //nolint:gosec // not negative
	case All:
		return allTask(p, w.Names), nil
	case Hear:
		if h, ok := p.(peer.Hearing); ok {
			return hearTask(h), nil
		}
	case Shared:
		if rw, ok := p.(peer.ReadWrite); ok {
			return sharedTask(rw, int64(goroutine)), nil
		}
	case Fair:
		if f, ok := p.(peer.Fair); ok {
			return always(f.LockFair, exclusive()), nil
		}
	case Semaphore:
		if s, ok := p.(peer.Counting); ok {
			acquire := func(ctx context.Context, key string) (peer.Held, error) { return s.Acquire(ctx, key, w.Permits) }
			return always(acquire, permits(w.Permits)), nil
		}
	}
	return task{}, fmt.Errorf("%s cannot do %s", plan.Peer, plan.Work.Name)
}

func ownTask(p peer.Peer, number, bytes int) task {
	key := fmt.Sprintf("own:%d", number)
	key += strings.Repeat(".", max(0, bytes-len(key)))
	return task{take: func(ctx context.Context, _ int64) (peer.Held, rule, error) {
		held, err := p.Lock(ctx, key)
		return held, exclusive().of(number), err
	}}
}

// always takes the one name in one way.
func always(take func(context.Context, string) (peer.Held, error), r rule) task {
	return task{shared: true, take: func(ctx context.Context, _ int64) (peer.Held, rule, error) {
		held, err := take(ctx, name)
		return held, r, err
	}}
}

// someTask takes a random one of n names. The seed differs between goroutines.
func someTask(p peer.Peer, n int, seed uint64) task {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not for secrets
	return task{shared: true, take: func(ctx context.Context, _ int64) (peer.Held, rule, error) {
		number := random.IntN(n)
		held, err := p.Lock(ctx, fmt.Sprintf("some:%d", number))
		return held, exclusive().of(number), err
	}}
}

func hearTask(p peer.Hearing) task {
	return task{take: func(ctx context.Context, _ int64) (peer.Held, rule, error) {
		held, err := p.Hear(ctx)
		return held, rule{}, err
	}}
}

func sharedTask(p peer.ReadWrite, offset int64) task {
	return task{shared: true, take: func(ctx context.Context, n int64) (peer.Held, rule, error) {
		if (n+offset)%writes == 0 {
			held, err := p.LockWrite(ctx, name)
			return held, exclusive(), err
		}
		held, err := p.LockRead(ctx, name)
		return held, reading(), err
	}}
}

// allTask takes several names, one after the other where the peer has no other
// way.
func allTask(p peer.Peer, n int) task {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("all:%03d", i)
	}
	together := func(ctx context.Context) (peer.Held, error) { return oneByOne(ctx, p, keys) }
	if m, ok := p.(peer.Multi); ok {
		together = func(ctx context.Context) (peer.Held, error) { return m.LockAll(ctx, keys) }
	}
	return task{take: func(ctx context.Context, _ int64) (peer.Held, rule, error) {
		held, err := together(ctx)
		return held, exclusive(), err
	}}
}

// chain is locks that were taken one after the other.
type chain []peer.Held

func oneByOne(ctx context.Context, p peer.Peer, keys []string) (peer.Held, error) {
	taken := make(chain, 0, len(keys))
	for _, key := range keys {
		held, err := p.Lock(ctx, key)
		if err != nil {
			_ = taken.Unlock()
			return nil, err
		}
		taken = append(taken, held)
	}
	return taken, nil
}

// Unlock releases them in reverse and returns the last error.
func (c chain) Unlock() (err error) {
	for i := len(c) - 1; i >= 0; i-- {
		if e := c[i].Unlock(); e != nil {
			err = e
		}
	}
	return err
}
