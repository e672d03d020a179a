package anystore

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
)

// etcdWithoutPermission takes the permissions of its clients away.
func etcdWithoutPermission(t *testing.T, ttl time.Duration) Refusing {
	server := etcdtest.Start(t)
	client, ctx := server.Client(t), t.Context()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(client.UserAdd(ctx, "root", "secret"))
	do(client.UserGrantRole(ctx, "root", "root"))
	do(client.UserAdd(ctx, "app", "secret"))
	do(client.RoleAdd(ctx, "locks"))
	grant := func(by *clientv3.Client) {
		t.Helper()
		do(by.RoleGrantPermission(ctx, "locks", "\x00", "\x00", clientv3.PermissionType(clientv3.PermReadWrite)))
	}
	grant(client)
	do(client.UserGrantRole(ctx, "app", "locks"))
	do(client.AuthEnable(ctx))
	login := func(user string) *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Username: user, Password: "secret", Logger: zap.NewNop(), DialTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	root := login("root")
	return Refusing{
		Open: func() driver.Backend {
			return etcdhold.New(login("app"), &etcdhold.Options{TTL: ttl})
		},
		Refuse: func() { do(root.RoleRevokePermission(ctx, "locks", "\x00", "\x00")) },
		Repair: func() { grant(root) },
	}
}
