package plaintest

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncLibrary makes the mutexes of redsync.
type redsyncLibrary struct{ rs *redsync.Redsync }

func newRedsync(client *redis.Client) library {
	return redsyncLibrary{redsync.New(pool.NewPool(client))}
}

func (l redsyncLibrary) lock(name string) foreignLock { return &redsyncLock{rs: l.rs, name: name} }

// redsyncLock is a mutex for each acquisition: the lease is fixed when it is made.
type redsyncLock struct {
	rs    *redsync.Redsync
	name  string
	mutex *redsync.Mutex // nil before the first success
}

func (l *redsyncLock) acquire(ctx context.Context, wait, lease time.Duration, value string) (bool, error) {
	options := []redsync.Option{
		redsync.WithExpiry(lease),
		redsync.WithRetryDelay(pause),
		redsync.WithTries(1 + int(wait/pause)),
		// An attempt may take 5 % of the lease by default, 30 ms of the short ones
		// here: too little on a busy machine.
		redsync.WithTimeoutFactor(0.5),
	}
	if value != "" {
		options = append(options, redsync.WithGenValueFunc(func() (string, error) { return value, nil }))
	}
	mutex := l.rs.NewMutex(l.name, options...)
	err := mutex.LockContext(ctx)
	if isTaken(err) || errors.Is(err, redsync.ErrFailed) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.mutex = mutex
	return true, nil
}

// isTaken says that the server answered, and the key has another value.
func isTaken(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken)
}

func (l *redsyncLock) release(ctx context.Context) error {
	if l.mutex == nil {
		return errors.New("redsync: never locked")
	}
	return unlockRedsync(ctx, l.mutex)
}

func unlockRedsync(ctx context.Context, mutex *redsync.Mutex) error {
	ok, err := mutex.UnlockContext(ctx)
	if err == nil && !ok {
		return errors.New("redsync: Unlock said false")
	}
	return err
}

func (l *redsyncLock) stranger(ctx context.Context) error {
	return unlockRedsync(ctx, l.rs.NewMutex(l.name, redsync.WithValue("stranger")))
}

// extend makes the lease what it was in the beginning: redsync has no other.
func (l *redsyncLock) extend(ctx context.Context, _ time.Duration) error {
	ok, err := l.mutex.ExtendContext(ctx)
	if err == nil && !ok {
		return errors.New("redsync: Extend said false")
	}
	return err
}

func (l *redsyncLock) isHeld(ctx context.Context) (bool, error) {
	if l.mutex == nil {
		return false, nil
	}
	//nolint:staticcheck // deprecated because of its races; nothing else asks the server
	held, err := l.mutex.ValidContext(ctx)
	if isTaken(err) {
		return false, nil
	}
	return held, err
}
