package background_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/background"
)

// At most Most functions run at once. The others follow in their order, and Wait waits for
// them.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, all = 3, 10
		var g background.Group
		q := background.Queue{Group: &g, Most: most}
		running, waited := make(chan bool, most), make(chan bool, all)
		for range all {
			q.Go(func(late bool) {
				select {
				case running <- true:
				default:
					t.Errorf("more than %d run at once", most)
					return
				}
				time.Sleep(time.Second)
				<-running
				waited <- late
			})
		}
		began := time.Now()
		if err := g.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("ten that take a second, three at once: got %v, want 4 s", took)
		}
		late := 0
		for range all {
			if <-waited {
				late++
			}
		}
		if late != all-most {
			t.Errorf("%d were called late, want %d", late, all-most)
		}
	})
}
