package rows

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// How many calls of each kind an Engine makes at once. Each call uses one connection. The hub
// uses another connection for its polls, and one more if it listens. So four processes need
// fewer than the hundred connections that PostgreSQL allows by default. Renewals and releases
// have limits of their own, so that they never wait for tries.
const (
	triesMost    = 8
	releasesMost = 8
	renewalsMost = 3
)

// limiter bounds how many calls of one kind are under way. A nil limiter bounds nothing.
type limiter chan struct{}

// acquire waits until one more call may begin. It returns an error if ctx ends first, or if the
// context that deadline.Caller returns ends first. The error says that nothing was sent.
func (l limiter) acquire(ctx context.Context) error {
	if l == nil {
		return nil
	}
	select {
	case l <- struct{}{}:
		return nil
	default:
	}
	caller := deadline.Caller(ctx)
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return unsent.Error(ctx.Err())
	case <-caller.Done():
		return unsent.Error(caller.Err())
	}
}

func (l limiter) release() {
	if l != nil {
		<-l
	}
}

// nameLocks lets one release at a time change the row of a name. Without it, hundreds of
// waiters that give up would wait in the server for the row, and the renewal by the holder
// would wait behind them.
type nameLocks struct {
	mu    sync.Mutex
	locks map[string]*nameLock
}

type nameLock struct {
	limiter
	users int // the number of calls that have the lock, or wait for it
}

// acquire takes the lock of a name. While another call has this lock, acquire waits. The caller
// releases the lock with the function `leave`. If ctx ends first, acquire returns an error
// which says that nothing was sent.
func (n *nameLocks) acquire(ctx context.Context, name string) (leave func(), err error) {
	n.mu.Lock()
	l := n.locks[name]
	if l == nil {
		if n.locks == nil {
			n.locks = make(map[string]*nameLock)
		}
		l = &nameLock{limiter: make(limiter, 1)}
		n.locks[name] = l
	}
	l.users++
	n.mu.Unlock()
	drop := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(n.locks, name)
		}
	}
	if err := l.acquire(ctx); err != nil {
		drop()
		return nil, err
	}
	return func() {
		l.release()
		drop()
	}, nil
}
