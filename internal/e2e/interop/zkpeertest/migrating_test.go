package zkpeertest

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/rollover"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// The programs of docs/migrating-java.md.

func newZooKeeperLocker(servers []string) (locker *holdfast.Locker, stop func()) {
	store := zkhold.New(servers, &zkhold.Options{Root: "/locks"})
	return holdfast.New(store, nil), store.Close
}

func deployWithHoldfast(ctx context.Context, locker *holdfast.Locker, deploy func(context.Context) error) error {
	return locker.Mutex("deploy").Do(ctx, func(ctx context.Context, _ *holdfast.Lock) error {
		return deploy(ctx) // ctx ends when the lock is lost
	})
}

// Curator, and programs in Go that replace it, take a lock in turns. Then the program of the
// page waits for Go.
func TestFromCurator(t *testing.T) {
	p := peer.Start(t, libraries()[0].start(t))
	locker, stop := newZooKeeperLocker([]string{server.Addr()})
	t.Cleanup(stop)
	t.Cleanup(func() { must.Drain(t, locker) })
	rollover.Test(t,
		rollover.Peer(p,
			peer.Command{Op: "lock", Name: "/locks/deploy", Wait: timeout.Milliseconds()},
			peer.Command{Op: "unlock", Name: "/locks/deploy"}),
		func(ctx context.Context, deploy func(context.Context) error) error {
			return deployWithHoldfast(ctx, locker, deploy)
		},
	)
	lock := must.Lock(t, locker, "deploy")
	answer := p.Go(peer.Command{Op: "migration"})
	await.Until(t, timeout, "Curator waits", func() bool {
		nodes, _, err := observer.Children("/locks/deploy")
		return err == nil && len(nodes) == 2
	})
	if len(answer) > 0 {
		t.Error("Curator did not wait for Go")
	}
	must.Unlock(t, lock)
	if r := <-answer; r.Err() != nil || !r.Bool() {
		t.Errorf("Curator: got %s and error %v after Go's unlock, want that it has deployed", r.Value, r.Err())
	}
}
