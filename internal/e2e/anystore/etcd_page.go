package anystore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
)

func etcdPage(t *testing.T) {
	server := etcdtest.Start(t)
	addr := strings.TrimPrefix(server.Addr(), "http://")
	r := pages.NewReader(t, "localhost:2379", addr)
	r.Env = append(r.Env, "ETCDCTL_ENDPOINTS="+addr,
		"PATH="+filepath.Dir(server.Control(t).Path)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	r.Follow("docs/etcd.md")
	const grants = "readwrite --prefix stock:"
	if text := pages.File(t, "docs/etcd.md"); !strings.Contains(text, " role grant-permission shop "+grants+"\n") {
		t.Fatalf("the page does not grant %q", grants)
	}
	for _, less := range []string{"read --prefix stock:", "write --prefix stock:", "readwrite --prefix stocks:", "readwrite stock:"} {
		r.Sh("export ETCDCTL_USER=root:top-secret\netcdctl role delete shop\netcdctl role add shop\n" +
			"etcdctl role grant-permission shop " + less + "\netcdctl user grant-role shop shop\n")
		r.WantRefusal("with "+less, "permission denied")
	}
}
