package dash

import (
	"context"
	"strings"
	"sync"
	"time"
)

const (
	pollEvery = 900 * time.Millisecond // so that what is shown is less than 1 s old
	idleTime  = 12 * time.Second       // longer than the time between two requests of a browser without JavaScript

	// probeName is polled while no page shows a lock, to know whether the store answers. There
	// need not be a lock with this name.
	probeName = "holdfast-dashboard"
)

// Watch makes the dashboard poll also while no browser is open, so that its event log and
// charts have no holes. Watch blocks. When ctx ends, it returns context.Cause(ctx). When
// Close is called, it returns nil.
func (d *Dashboard) Watch(ctx context.Context) error {
	leave, ok := d.join()
	if !ok {
		return nil
	}
	defer leave()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.done:
		return nil
	}
}

// Close ends all streams of updates, and waits until all goroutines of the dashboard have
// ended. Later requests get status 503. http.Server.Shutdown does not end streams, so
// pass Close to its RegisterOnShutdown. A Dashboard that is used until its program ends
// needs no Close.
func (d *Dashboard) Close() {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.done)
	}
	d.mu.Unlock()
	d.running.Wait()
}

// join counts a viewer until the caller calls the function `leave`. It starts the watcher if
// none runs. The result `ok` is false after Close.
func (d *Dashboard) join() (leave func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, false
	}
	d.viewers++
	if !d.watching {
		d.watching = true
		d.running.Go(d.watch)
	}
	return d.leave, true
}

func (d *Dashboard) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.viewers--
	d.left = time.Now()
}

// idle reports whether the watcher must end: after Close, or if there was no viewer for
// idleTime. It is called at the end of a round. The next viewer starts another watcher.
func (d *Dashboard) idle(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed && (d.viewers > 0 || now.Sub(d.left) < idleTime) {
		return false
	}
	d.watching = false
	return true
}

// watch is the watcher: it polls the names on the pages, and updates the browsers. Beside it
// one goroutine scans all names, another adds changes to the event log, and a third checks the
// store.
func (d *Dashboard) watch() {
	d.alone.Lock()
	defer d.alone.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var others sync.WaitGroup
	others.Go(func() { d.scan(ctx) })
	others.Go(func() { d.readLog(ctx) })
	others.Go(func() { d.examine(ctx) })
	defer func() { cancel(); others.Wait() }()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		d.round(ctx)
		if d.idle(time.Now()) {
			return
		}
		select {
		case <-ticker.C:
		case <-d.done:
		}
	}
}

// round polls once the names that pages show, and updates the browsers.
func (d *Dashboard) round(ctx context.Context) {
	names, details := d.views.wanted(time.Now())
	names = d.table.due(names, time.Now())
	granted := d.budget.take(time.Now(), 0, max(1, len(names)))
	if names = names[:min(granted, len(names))]; len(names) == 0 {
		names = []string{d.options.NamePrefix + probeName}
	}
	d.fetch(ctx, names)
	for _, v := range details {
		if d.store.now().failing.IsZero() {
			d.refreshDetail(ctx, v, 0)
		}
	}
	d.eventLog.sample(time.Now(), sum(d.table.All).Waiting)
	d.publish()
}

// refreshNames polls the given names, as far as the budget allows. It leaves out names that are
// not known, or were polled within the last second. It returns true if names remained, also if
// the budget did not allow it to poll them.
func (d *Dashboard) refreshNames(ctx context.Context, names []string) bool {
	old := d.table.due(names, time.Now().Add(-time.Second))
	if granted := d.budget.take(time.Now(), 0, len(old)); granted > 0 {
		d.fetch(ctx, old[:granted])
	}
	return len(old) > 0
}

// shown reports whether pages may show the lock with this name.
func (d *Dashboard) shown(name string) bool {
	return name != "" && len(name) <= longPlace && strings.HasPrefix(name, d.options.NamePrefix)
}
