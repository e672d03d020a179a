package named

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// Keys are Locks for a program that passes no context to Lock and Unlock.
type Keys struct{ locks *Locks }

// NewKeys returns Keys. The store has each lock under the name prefix + key.
func NewKeys(l *holdfast.Locker, prefix string, opts ...holdfast.Option) Keys {
	return Keys{New(l, prefix, opts...)}
}

// Lock is Locks.Lock.
func (k Keys) Lock(key string) error { return k.locks.Lock(context.Background(), key) }

// Unlock is Locks.Unlock.
func (k Keys) Unlock(key string) error { return k.locks.Unlock(context.Background(), key) }

// DB is one lock for a program that passes its database to Lock and Unlock. DB does not use
// the database.
type DB struct{ locks *Locks }

// NewDB returns a DB that takes m.
func NewDB(m *holdfast.Mutex, opts ...holdfast.Option) DB { return DB{single(m, opts)} }

// Lock is Locks.Lock.
func (d DB) Lock(ctx context.Context, _ *sql.DB) error { return d.locks.Lock(ctx, "") }

// Unlock is Locks.Unlock.
func (d DB) Unlock(ctx context.Context, _ *sql.DB) error { return d.locks.Unlock(ctx, "") }

// Session is one lock for a program that passes a connection to SessionLock and
// SessionUnlock. Session does not use the connection.
type Session struct{ locks *Locks }

// NewSession returns a Session that takes m.
func NewSession(m *holdfast.Mutex, opts ...holdfast.Option) Session { return Session{single(m, opts)} }

// SessionLock is Locks.Lock.
func (s Session) SessionLock(ctx context.Context, _ *sql.Conn) error { return s.locks.Lock(ctx, "") }

// SessionUnlock is Locks.Unlock.
func (s Session) SessionUnlock(ctx context.Context, _ *sql.Conn) error {
	return s.locks.Unlock(ctx, "")
}

// One is one lock for a program that passes no arguments to Lock and Unlock.
type One struct{ locks *Locks }

// NewOne returns a One that takes m. golang-migrate gives up a Lock after Migrate.LockTimeout,
// and does not unlock the lock if that Lock succeeds later. So give a holdfast.Wait that is some
// seconds shorter than LockTimeout. Both must be longer than the longest migration, because the
// other replicas fail with ErrBusy after Wait. LockTimeout is 15 s by default.
func NewOne(m *holdfast.Mutex, opts ...holdfast.Option) One { return One{single(m, opts)} }

// Lock is Locks.Lock. It returns ErrDeadlock while this One holds the lock.
func (o One) Lock() error {
	if o.locks.RenewLockLease(context.Background(), "", 0) == nil {
		return fmt.Errorf("lock %q: %w: it is locked here, and not unlocked", o.locks.mutex("").Name(), holdfast.ErrDeadlock)
	}
	return o.locks.Lock(context.Background(), "")
}

// Unlock is Locks.Unlock.
func (o One) Unlock() error { return o.locks.Unlock(context.Background(), "") }

// single returns Locks for the lock m alone, under the empty name.
func single(m *holdfast.Mutex, opts []holdfast.Option) *Locks {
	return newLocks(func(string) *holdfast.Mutex { return m }, opts)
}
