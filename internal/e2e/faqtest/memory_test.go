package faqtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/named"
	"github.com/holdfast-go/holdfast/quorum"
)

// user has a store in memory and two Lockers over it.
type user struct {
	*testing.T
	store       *faulty.Store
	mine, other *holdfast.Locker
}

// inMemory runs a user in fake time, and returns the text of the error that it got.
func inMemory(use func(u user) error) produce {
	return func(t *testing.T) (text string) {
		synctest.Test(t, func(t *testing.T) {
			store := faulty.New()
			u := user{T: t, store: store, mine: holdfast.New(store, nil), other: holdfast.New(store, nil)}
			text = words(t, use(u))
			store.Change(func() { store.OnTry, store.OnRenew, store.OnRelease = nil, nil, nil })
			must.Drain(t, u.mine)
			must.Drain(t, u.other)
		})
		return text
	}
}

// words returns the text of an error that must not be nil.
func words(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		t.Error("got no error")
		return ""
	}
	return err.Error()
}

// try returns the error of a TryLock, and unlocks if there is none.
func (u user) try(ctx context.Context, l *holdfast.Locker, opts ...holdfast.Option) error {
	u.Helper()
	lock, err := l.TryLock(ctx, "job", opts...)
	if err == nil {
		must.Unlock(u, lock)
	}
	return err
}

// wait returns the error of a Lock whose context ends after a second.
func (u user) wait(l *holdfast.Locker) error {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.Context(), time.Second)
	defer cancel()
	_, err := l.Lock(ctx, "job")
	return err
}

// fails has the store fail each try.
func (u user) fails(err error) {
	u.store.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) { return driver.Outcome{}, err }
}

var errDown = errors.New("the store is down")

func memoryMessages() map[string]produce {
	return map[string]produce{
		`lock "…" is held by …`: inMemory(func(u user) error {
			defer must.Unlock(u, must.Lock(u, u.other, "job"))
			return u.try(u.Context(), u.mine)
		}),
		`lock "…" is taken until …`: inMemory(func(u user) error {
			must.Unlock(u, must.Lock(u, u.other, "job", holdfast.AtLeast(time.Minute)))
			return u.try(u.Context(), u.mine)
		}),
		`lock "…": context deadline exceeded while held by …`: inMemory(func(u user) error {
			defer must.Unlock(u, must.Lock(u, u.other, "job"))
			return u.wait(u.mine)
		}),
		`lock "…": context deadline exceeded; the store's last error: …`: inMemory(func(u user) error {
			u.fails(errDown)
			return u.wait(u.mine)
		}),
		`no answer from the store`: inMemory(func(u user) error {
			u.store.OnTry = func(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
				return driver.Outcome{}, faulty.Hang(ctx)
			}
			return u.try(u.Context(), u.mine, holdfast.Wait(time.Second))
		}),
		`lock "…": not acquired within …: …`: inMemory(func(u user) error {
			u.fails(errDown)
			return u.try(u.Context(), u.mine, holdfast.Wait(time.Second))
		}),
		`would wait for itself: the context comes from a lock of that name; use WithOwner to re-enter`: inMemory(func(u user) error {
			lock := must.Lock(u, u.mine, "job")
			defer must.Unlock(u, lock)
			return u.try(lock.Context(u.Context()), u.mine)
		}),
		`name is in use for something else`: inMemory(func(u user) error {
			defer must.Unlock(u, must.Lock(u, u.other, "job"))
			_, err := u.mine.RWMutex("job").Read.TryLock(u.Context())
			return err
		}),
		`… has no …: unsupported operation`: inMemory(func(u user) error {
			_, err := holdfast.New(mysqlhold.New(nil, nil), nil).FairMutex("job").TryLock(u.Context())
			return err
		}),
		`the store answers too slowly for this lease`: inMemory(func(u user) error {
			u.store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				out, err := u.store.Backend.Try(ctx, c)
				time.Sleep(600 * time.Millisecond)
				return out, err
			}
			_, err := u.mine.Lock(u.Context(), "job", holdfast.FixedLease(time.Second))
			return err
		}),
		`TTL of … is too short: … keeps a lock for at least …`: inMemory(func(u user) error {
			return u.try(u.Context(), holdfast.New(u.store, &holdfast.Options{TTL: time.Millisecond}))
		}),
		`… keeps all locks of a client for …; change that with …`: inMemory(func(u user) error {
			return u.try(u.Context(), holdfast.New(etcdhold.New(nil, nil), &holdfast.Options{TTL: 5 * time.Second}))
		}),
		`lock "…" lost: …`: inMemory(func(u user) error {
			lock := must.Lock(u, u.mine, "job")
			u.store.Drop("job")
			<-lock.Context(u.Context()).Done()
			return lock.Unlock()
		}),
		`unlock "…": already unlocked`: inMemory(func(u user) error {
			lock := must.Lock(u, u.mine, "job")
			must.Unlock(u, lock)
			return lock.Unlock()
		}),
		`unlock "…": not confirmed, goes on in the background`: inMemory(func(u user) error {
			lock := must.Lock(u, u.mine, "job")
			u.store.Change(func() { u.store.OnRelease = func(context.Context, driver.Claim) error { return errDown } })
			return lock.Unlock()
		}),
		`unlock "…": not released; the lease ends in …`: inMemory(func(u user) error {
			lock := must.Lock(u, u.mine, "job")
			u.store.Change(func() { u.store.OnRelease = func(context.Context, driver.Claim) error { return driver.ErrClosed } })
			return lock.Unlock()
		}),
		`fence: stale token: …`: inMemory(func(user) error {
			var guard fence.Guard
			write := func() error { return nil }
			return errors.Join(guard.Do("job", 2, write), guard.Do("job", 1, write))
		}),
		`is not a token: does the store of the lock have them?`: inMemory(func(user) error {
			return new(fence.Guard).Do("job", 0, nil)
		}),
		`election "…": not the leader`: inMemory(func(u user) error {
			return elect.New(u.mine.Mutex("job")).Leading()
		}),
		`lock "…": this process does not hold it`: inMemory(func(u user) error {
			return named.New(u.mine, "").Unlock(u.Context(), "job")
		}),
		`quorum: no majority of … nodes for "…"`: inMemory(func(u user) error {
			u.fails(errDown)
			second := faulty.New()
			second.OnTry = u.store.OnTry
			majority, err := quorum.New([]driver.Backend{u.store, second, faulty.New()}, &quorum.Options{TrustRestarts: true})
			if err != nil {
				return err
			}
			return u.try(u.Context(), holdfast.New(majority, nil))
		}),
	}
}
