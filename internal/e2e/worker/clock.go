package worker

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/judge"
)

// ticks are how often the watches of a process look whether it has had a processor.
// There are several: a thread that the system has put aside keeps its timers with
// it, and those of other threads go on.
func ticks() []time.Duration {
	const often, seldom = time.Millisecond, 4 * time.Millisecond
	return []time.Duration{often, seldom, seldom, seldom}
}

// Watch calls stalled with each time of more than a millisecond in which this process did not
// run, from this call until ctx ends: it excuses a context that ended late, not a belief that
// lasted too long. Several goroutines call stalled, also at once, and also for the same time.
// Watch returns at once; wait returns when stalled is not called any more.
func Watch(ctx context.Context, stalled func(judge.Span)) (wait func()) {
	begun := time.Now()
	var all sync.WaitGroup
	for _, tick := range ticks() {
		all.Go(func() { watch(ctx, begun, tick, stalled) })
	}
	return all.Wait
}

// watch has its first tick from begun: its goroutine may start later.
func watch(ctx context.Context, begun time.Time, tick time.Duration, stalled func(judge.Span)) {
	last := begun
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(tick):
		}
		now := time.Now()
		if late := now.Sub(last) - tick; late > time.Millisecond {
			stalled(judge.Span{From: now.Add(-late).UnixNano(), To: now.UnixNano()})
		}
		last = now
	}
}
