package anystore

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
)

func zooKeeperPage(t *testing.T) {
	r := pages.NewReader(t, "localhost:2181", zktest.Start(t).Addr())
	r.Follow("docs/zookeeper.md")
	program := pages.First(t, "docs/zookeeper.md", "go")
	for _, p := range []struct{ permission, root, why string }{
		{"zk.PermRead|", "/without-read", "not authenticated"},
		{"zk.PermCreate|", "/without-create", "not authenticated"},
		{"|zk.PermDelete", "/without-delete", "unlock \"stock:42\": not confirmed"},
	} {
		without := strings.Replace(program, p.permission, "", 1)
		if without == program {
			t.Fatalf("the program does not grant %q", p.permission)
		}
		r.Write(strings.Replace(without, `"/shop"`, `"`+p.root+`"`, 1)) // nodes keep the permissions that they were made with
		r.WantRefusal("without "+p.permission, p.why)
	}
}
