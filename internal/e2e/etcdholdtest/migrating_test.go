package etcdholdtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/rollover"
	"github.com/holdfast-go/holdfast/internal/must"
)

// The programs of docs/migrating.md.

func deployWithConcurrency(ctx context.Context, client *clientv3.Client, work func(context.Context) error) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(15))
	if err != nil {
		return err
	}
	defer session.Close()
	mutex := concurrency.NewMutex(session, "deploy")
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	err = work(ctx) // goes on if the session ends
	return errors.Join(err, mutex.Unlock(context.WithoutCancel(ctx)))
}

func newEtcdLocker(client *clientv3.Client) *holdfast.Locker {
	return etcdhold.Locker(client, &holdfast.Options{TTL: 15 * time.Second})
}

func deployWithHoldfast(ctx context.Context, locker *holdfast.Locker, work func(context.Context) error) error {
	return locker.Mutex("deploy").Do(ctx, func(ctx context.Context, _ *holdfast.Lock) error {
		return work(ctx) // ctx ends when the lock is lost
	})
}

func leadWithConcurrency(ctx context.Context, session *concurrency.Session, lead func(context.Context) error) error {
	election := concurrency.NewElection(session, "leader")
	if err := election.Campaign(ctx, "10.0.0.7:80"); err != nil {
		return err
	}
	err := lead(ctx) // goes on if the session ends
	return errors.Join(err, election.Resign(context.WithoutCancel(ctx)))
}

func leadWithHoldfast(ctx context.Context, locker *holdfast.Locker, lead func(context.Context) error) error {
	return elect.New(locker.Mutex("leader")).Run(ctx, func(term context.Context, _ *holdfast.Lock) error {
		return lead(term) // term ends when the lock is lost; then Run campaigns again
	})
}

// etcdLocker returns the Locker of the page, which is drained when t ends.
func etcdLocker(t *testing.T) *holdfast.Locker {
	t.Helper()
	l := newEtcdLocker(server.Client(t))
	t.Cleanup(func() { must.Drain(t, l) })
	return l
}

func TestFromConcurrencyMutex(t *testing.T) {
	t.Parallel()
	client, locker := server.Client(t), etcdLocker(t)
	rollover.Test(t,
		func(ctx context.Context, work func(context.Context) error) error {
			return deployWithConcurrency(ctx, client, work)
		},
		func(ctx context.Context, work func(context.Context) error) error {
			return deployWithHoldfast(ctx, locker, work)
		},
	)
	empty(t, "deploy")
}

func TestFromConcurrencyElection(t *testing.T) {
	t.Parallel()
	client, locker := server.Client(t), etcdLocker(t)
	rollover.Test(t,
		func(ctx context.Context, lead func(context.Context) error) error {
			session, err := concurrency.NewSession(client, concurrency.WithTTL(15)) // one for each instance
			if err != nil {
				return err
			}
			defer session.Close()
			return leadWithConcurrency(ctx, session, lead)
		},
		func(ctx context.Context, lead func(context.Context) error) error {
			return leadWithHoldfast(ctx, locker, lead)
		},
	)
	empty(t, "leader")
}

// While a term of Holdfast runs, an Election finds its Note: in the first line of the value.
func TestNoteIsTheFirstLineForElections(t *testing.T) {
	t.Parallel()
	const address = "10.0.0.8:80"
	store := etcdhold.New(server.Client(t), nil)
	locker := holdfast.New(store, &holdfast.Options{Note: address})
	t.Cleanup(func() { must.Drain(t, locker) })
	session, err := concurrency.NewSession(server.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	err = elect.New(locker.Mutex(name(t))).Run(within(t), func(term context.Context, _ *holdfast.Lock) error {
		r, err := concurrency.NewElection(session, name(t)).Leader(term)
		if err != nil {
			return err
		}
		if first, _, _ := strings.Cut(string(r.Kvs[0].Value), "\n"); first != address {
			t.Errorf("the leader is %q for an Election, want %q", r.Kvs[0].Value, address)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
