package redistest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// An isolated master takes writes until it finds that it is alone, is replaced, and
// follows the new one when it is back; what it was written meanwhile is lost.
func TestIsolate(t *testing.T) {
	d := redistest.StartDeployment(t, redistest.Cluster, redistest.CuttableBus())
	const key = "k"
	old := d.Master(key)
	old.String("SET", key, "before")
	d.Isolate(old)
	if got := old.String("SET", key, "lost"); got != "OK" {
		t.Fatalf("got %q from a master that was just isolated, want OK", got)
	}
	master := d.Master(key)
	await.Until(t, 20*time.Second, "another is master", func() bool {
		master = d.Master(key)
		return master.Addr() != old.Addr()
	})
	if err, ok := old.Do("SET", key, "late").(error); !ok || !strings.HasPrefix(err.Error(), "CLUSTERDOWN") {
		t.Errorf("got %v from a master that is alone, want CLUSTERDOWN", err)
	}
	if err := d.Heal(); err != nil {
		t.Fatal(err)
	}
	if got := d.Master(key).String("GET", key); got != "before" {
		t.Errorf("got %q after the split, want what was written before it", got)
	}
}
