//go:build unix

package await_test

import (
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
)

func TestStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if late := await.Starved(func() { time.Sleep(time.Second) }); late != 0 { // the clock of a bubble waits for all
			t.Errorf("got %v, want 0", late)
		}
	})
}

// A process that is stopped has no processor.
func TestStarvedWhileStopped(t *testing.T) {
	began := time.Now()
	late := await.Starved(func() {
		if out, err := exec.Command("sh", "-c", "kill -STOP $PPID; sleep 0.2; kill -CONT $PPID").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	if took := time.Since(began); late < 150*time.Millisecond || late > took {
		t.Errorf("got %v of %v, want 200ms or more", late, took)
	}
}
