package zkholdtest

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// A ZooKeeper asks for permissions only when a claim makes a node. So holders and waiters notice
// nothing, and a new claim waits for the repair.
func TestRefusalOfSeconds(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	admin := server.Client(t)
	if err := admin.AddAuth("digest", []byte("admin:secret")); err != nil {
		t.Fatal(err)
	}
	b := zkhold.New([]string{server.Addr()}, &zkhold.Options{TTL: 3 * time.Second})
	defer b.Close()
	l := holdfast.New(b, nil)
	must.Unlock(t, must.Lock(t, l, "job"))
	if _, err := admin.Create("/leader", nil, 0, zk.DigestACL(zk.PermAll, "admin", "secret")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Lock(t.Context(), "leader"); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("got %v, want ErrDenied at once", err)
	}
	refused, got := make(chan error, 1000), make(chan error, 1)
	go func() {
		lock, err := l.Lock(t.Context(), "leader", holdfast.RetryRefused(func(err error, _ time.Duration) { refused <- err }))
		if err == nil {
			err = lock.Unlock()
		}
		got <- err
	}()
	ctx := await.Context(t, time.Minute)
	select {
	case <-refused:
	case <-ctx.Done():
		t.Fatal("a new claim is not refused")
	}
	if _, err := admin.SetACL("/leader", zk.WorldACL(zk.PermAll), -1); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("no lock after the repair")
	}
	must.Drain(t, l)
}
