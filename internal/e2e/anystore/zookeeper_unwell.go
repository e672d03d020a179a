package anystore

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
)

func unwellZooKeeper(t *testing.T, _ func(url string)) []Unwell {
	frozen, members := zktest.Start(t), zktest.StartEnsemble(t, 3)
	for _, m := range members[1:] {
		m.Kill()
	}
	if err := frozen.Pause(); err != nil {
		t.Fatal(err)
	}
	login := zktest.StartWith(t, "enforce.auth.enabled=true", "enforce.auth.schemes=digest")
	denied := zktest.Start(t)
	if _, err := denied.Client(t).Create("/job", nil, 0, zk.DigestACL(zk.PermAll, "admin", "secret")); err != nil {
		t.Fatal(err)
	}
	return []Unwell{
		{"wrong password", "zk://" + login.Addr(), "demands a login", 77, false},
		{"missing right", "zk://" + denied.Addr(), "does not let this client", 77, true},
		{"frozen", "zk://" + frozen.Addr(), "not answer|no answer|timeout", 69, false},
		{"no majority", "zk://" + members[0].Addr(), "majority|leader|not answer|no answer", 69, false},
	}
}
