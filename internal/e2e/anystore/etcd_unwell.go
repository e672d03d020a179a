package anystore

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
)

func unwellEtcd(t *testing.T, _ func(url string)) []Unwell {
	frozen, secret, members := etcdtest.Start(t), etcdtest.Start(t), etcdtest.StartCluster(t, 3)
	for _, m := range members[1:] {
		m.Kill()
	}
	if err := frozen.Pause(); err != nil {
		t.Fatal(err)
	}
	client, ctx := secret.Client(t), t.Context()
	_, err := client.UserAdd(ctx, "root", "secret")
	_, granted := client.UserGrantRole(ctx, "root", "root")
	_, enabled := client.AuthEnable(ctx)
	if err := errors.Join(err, granted, enabled); err != nil {
		t.Fatal(err)
	}
	denied, full := etcdtest.Start(t), etcdtest.Start(t)
	open := denied.Client(t)
	_, first := open.UserAdd(ctx, "root", "secret")
	_, second := open.UserGrantRole(ctx, "root", "root")
	_, third := open.UserAdd(ctx, "app", "secret")
	_, fourth := open.AuthEnable(ctx)
	if err := errors.Join(first, second, third, fourth); err != nil {
		t.Fatal(err)
	}
	alarms := etcdserverpb.NewMaintenanceClient(full.Client(t).ActiveConnection())
	if _, err := alarms.Alarm(ctx, &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE}); err != nil {
		t.Fatal(err)
	}
	return []Unwell{
		{"full", "etcd://" + etcdAddr(full), "quota|NOSPACE", 69, true},
		{"missing right", "etcd://app:secret@" + etcdAddr(denied), "permission denied", 77, false},
		{"frozen", "etcd://" + etcdAddr(frozen), "not answer|no answer|timeout", 69, false},
		{"wrong password", "etcd://root:wrong@" + etcdAddr(secret), "password|authentication", 77, false},
		{"no majority", "etcd://" + etcdAddr(members[0]), "majority|leader|not answer|no answer", 69, false},
	}
}
