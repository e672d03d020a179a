package dash

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	pollEvery = 900 * time.Millisecond // so that what is shown is less than 1 s old
	idleTime  = 12 * time.Second       // longer than a browser without JavaScript takes to come back
	scanEvery = time.Second
	scanRetry = 2 * time.Second

	missingPolls = 16 // names polled each time, of those that an incomplete scan has not found

	// probeName is looked at while no lock is shown, to know that the store
	// answers. It need not exist.
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
	watcher := d.watcher
	d.mu.Unlock()
	if watcher != nil {
		<-watcher
	}
}

// join says that somebody looks, until leave is called. It starts the watcher if
// there is none.
func (d *Dashboard) join() (leave func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, false
	}
	d.viewers++
	if !d.watching {
		before, ended := d.watcher, make(chan struct{})
		d.watching, d.watcher = true, ended
		go d.watch(before, ended)
	}
	return d.leave, true
}

func (d *Dashboard) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.viewers--
	d.left = time.Now()
}

// idle reports, at the end of a round, that nobody has looked for a while. The
// watcher that asks must then end: the next viewer starts another.
func (d *Dashboard) idle(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed && (d.viewers > 0 || now.Sub(d.left) < idleTime) {
		return false
	}
	d.watching = false
	return true
}

// watch is the watcher: it looks at what is on the pages, and hands it out. At its
// side one goroutine walks over all names, another reads what programs tell. The watcher before it may be about
// to end.
func (d *Dashboard) watch(before <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	if before != nil {
		<-before
	}
	ctx, cancel := context.WithCancel(context.Background())
	var others sync.WaitGroup
	others.Go(func() { d.walk(ctx) })
	others.Go(func() { d.readLog(ctx) })
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

// round looks once at all that is shown somewhere, and updates the browsers.
func (d *Dashboard) round(ctx context.Context) {
	names, details := d.views.wanted(time.Now())
	granted := d.budget.take(time.Now(), max(1, len(names)))
	if names = turn(names, granted, &d.turn); len(names) == 0 {
		names = []string{d.options.NamePrefix + probeName}
	}
	d.fetch(ctx, names)
	for _, v := range details {
		if d.store.now().failing.IsZero() && d.budget.takeAll(time.Now(), pollsPerDetail) {
			v.refresh(ctx, d)
		}
	}
	held, waits := d.table.totals()
	d.eventLog.sample(time.Now(), held, waits)
	d.publish()
}

// turn returns n of names: others each time, if n is less than there are.
func turn(names []string, n int, next *int) []string {
	if n >= len(names) {
		*next = 0
		return names
	}
	some := make([]string, 0, n)
	for i := range n {
		some = append(some, names[(*next+i)%len(names)])
	}
	*next = (*next + n) % len(names)
	return some
}

// walk finds the names that are locked, again and again, at a pace that the store
// does not feel.
func (d *Dashboard) walk(ctx context.Context) {
	for {
		began := time.Now()
		found, err := d.pass(ctx)
		rest := max(scanEvery, time.Duration(found)*4*time.Second/scanPace-time.Since(began))
		if err != nil {
			rest = scanRetry
		}
		if !retry.Sleep(ctx, rest) {
			return
		}
	}
}

// pass walks over all names once.
func (d *Dashboard) pass(ctx context.Context) (found int, err error) {
	d.table.begin(time.Now())
	options := admin.Filter{NamePrefix: d.options.NamePrefix, Pace: scanPace, Counters: d.options.Counters}
	for record, failed := range d.console.List(ctx, options) {
		if failed != nil {
			err = failed
			break
		}
		if found++; found > mostNames {
			err = admin.ErrIncomplete
			break
		}
		d.found(ctx, time.Now(), []admin.Record{record}, true)
	}
	if ctx.Err() == nil {
		d.endPass(ctx, err)
	}
	return found, err
}

// endPass ends a pass. What it has not found is gone if it saw everything; else
// only the store can tell, and some of it is asked about each time.
func (d *Dashboard) endPass(ctx context.Context, err error) {
	missing := d.table.missing()
	now := time.Now()
	if err == nil {
		d.table.end(now, nil, d.reasons(ctx, d.table.over(now, missing)))
		return
	}
	d.table.end(now, err, nil)
	if len(missing) == 0 || !d.store.now().failing.IsZero() {
		return
	}
	names := make([]string, d.budget.take(now, min(len(missing), missingPolls)))
	for i := range names {
		names[i] = missing[i].Name
	}
	if len(names) > 0 {
		d.fetch(ctx, names)
	}
}

// refreshNames looks at those of names that were not looked at just now, as far as the
// budget goes.
func (d *Dashboard) refreshNames(ctx context.Context, names []string) {
	old := d.table.stale(names, time.Now().Add(-time.Second))
	if len(old) == 0 {
		return
	}
	if old = old[:d.budget.take(time.Now(), len(old))]; len(old) > 0 {
		d.fetch(ctx, old)
	}
}

// shown reports that a page may tell of name.
func (d *Dashboard) shown(name string) bool {
	return name != "" && len(name) <= longPlace && strings.HasPrefix(name, d.options.NamePrefix)
}

// refreshName looks at a name that was just changed.
func (d *Dashboard) refreshName(ctx context.Context, name string) {
	if d.budget.take(time.Now(), 1) == 1 {
		d.fetch(ctx, []string{name})
	}
}
