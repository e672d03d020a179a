package migratingtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// TestLinesOfThePage types the lines of docs/migrating.md while redsync and Holdfast hold a
// lock each.
func TestLinesOfThePage(t *testing.T) {
	t.Parallel()
	binary, server := must.Build(t), redistest.Start(t)
	rdb := client(t, server)
	locker := newShop(rdb, nil).locker
	t.Cleanup(func() { must.Drain(t, locker) })
	lock := must.Lock(t, locker, "stock:new")
	defer lock.Unlock()
	mutex := newRedsyncShop(rdb, nil).locks.NewMutex("stock:old", redsync.WithExpiry(time.Minute))
	if err := mutex.LockContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer mutex.Unlock()
	lines := 0
	for _, b := range pages.Of(t, "docs/migrating.md") {
		if b.Language != "sh" {
			continue
		}
		lines++
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", b.Text)
		cmd.Env = append(os.Environ(), "HOLDFAST_URL="+server.URL(), "PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "stock:old") || !strings.Contains(string(out), "stock:new") {
			t.Errorf("got error %v, want both locks:\n%s", err, out)
		}
	}
	if lines == 0 {
		t.Error("the page has no line of the shell")
	}
}
