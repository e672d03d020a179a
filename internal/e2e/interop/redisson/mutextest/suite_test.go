package mutextest

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
)

// watchdog starts a JVM with that "lockWatchdogTimeout".
func watchdog(b *redisson.Bench, timeout time.Duration) *peer.Process {
	return b.JVM(func(o *redisson.Settings) { o.LockWatchdogTimeout = timeout.Milliseconds() })
}

// wakeUps measures how soon waiters have what is released.
type wakeUps struct {
	t     *testing.T
	quiet sync.Locker
	worst time.Duration
}

func newWakeUps(t *testing.T, b *redisson.Bench) *wakeUps {
	return &wakeUps{t: t, quiet: b.Quiet()}
}

// measure wants who to have the lock soon after the call of release.
func (w *wakeUps) measure(who string, release func(), got func() time.Time) {
	w.t.Helper()
	took, late := w.took(release, got)
	redisson.WantSoon(w.t, who, took, late)
	w.worst = max(w.worst, took)
}

// took returns how long after the call of release the lock was had, and for how long
// there was no processor meanwhile. No JVM starts.
func (w *wakeUps) took(release func(), got func() time.Time) (took, late time.Duration) {
	w.t.Helper()
	w.quiet.Lock()
	defer w.quiet.Unlock()
	late = await.Starved(func() {
		released := time.Now()
		release()
		took = got().Sub(released)
	})
	return took, late
}

// report names the slowest of them.
func (w *wakeUps) report() {
	w.t.Helper()
	w.t.Attr("wake-up", w.worst.Round(100*time.Microsecond).String())
}
