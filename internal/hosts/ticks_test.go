package hosts

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/job"
)

// The instances of a scheduler call a job once in each period, some milliseconds apart. A second
// run in the same tick would be nearer to the first than least.
const (
	instances = 3
	period    = time.Second
	least     = 700 * time.Millisecond
)

// run is work that an instance did.
type run struct {
	instance      int
	called, began time.Time // the name became taken in between
}

// ticks records what a job does in all instances, none of which has two runs at a time.
type ticks struct {
	runs chan run

	mu     sync.Mutex
	called [instances]time.Time // the last call of each
	calls  int
}

func newTicks() *ticks { return &ticks{runs: make(chan run, 1000)} }

// call records that an instance is about to run the job.
func (k *ticks) call(instance int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.called[instance] = time.Now()
	k.calls++
}

// job returns the job of an instance. It does so little that a lock alone would not keep the
// others from doing it again.
func (k *ticks) job(t *testing.T, instance int, l *holdfast.Locker) *job.Job {
	j := job.New(l.Mutex("report"), func(context.Context, *holdfast.Lock) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.runs <- run{instance, k.called[instance], time.Now()}
		return nil
	}, holdfast.AtLeast(least))
	j.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	return j
}

// judge waits for a few runs, and wants one in each tick at most. A name is taken between the call
// of a run and its work, so the work of the next run is least after that call or later, wherever
// the machine stands still.
func (k *ticks) judge(t *testing.T) {
	t.Helper()
	var all []run
	for range 5 {
		b := <-k.runs
		for _, a := range all {
			if gap := max(b.began.Sub(a.called), a.began.Sub(b.called)); gap < least {
				t.Errorf("instances %d and %d ran within %v, want %v at least", a.instance, b.instance, gap, least)
			}
		}
		all = append(all, b)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t.Logf("%d runs of %d calls", len(all), k.calls)
}
