package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

const (
	// chapterEvery is how often a client adds to the history.
	chapterEvery = time.Second

	// So much is told at once, and a second on average; of the rest, how much it was.
	// What is rare has room of its own.
	chapterMost     = 100
	chapterReserved = 50
	sustained       = 10
)

// History returns what the clients of the store did that have Options.History, in
// the order in which they told it. It is for people: it has holes where much happened at a time, and
// where a client died or could not reach the store. Those who go on from the ID of
// the last see each happening once.
//
// It is errors.ErrUnsupported on a store that keeps no history.
func (l *Locker) History(ctx context.Context, o admin.LogFilter) ([]admin.Entry, error) {
	if l.invalid != nil {
		return nil, fmt.Errorf("history: holdfast options: %w", l.invalid)
	}
	store, err := historian(l.backend, l.info)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	happenings, err := store.ReadLog(ctx, o)
	if err != nil {
		err = fmt.Errorf("history: %w", err)
	}
	return happenings, err
}

func historian(b driver.Backend, info driver.Info) (admin.Source, error) {
	store, ok := b.(admin.Source)
	if !ok {
		return nil, fmt.Errorf("%s keeps no history: %w", info.Name, errors.ErrUnsupported)
	}
	return store, nil
}

// diary tells the store what happens to the locks of a Locker. It collects for a
// second, so that no lock waits for it; a timer runs only while there is something
// to tell.
type diary struct {
	locker *Locker
	store  admin.Source

	mu      sync.Mutex
	pending []admin.Entry
	room    float64       // how much more may be told that is not rare
	counted clock.Instant // when that was
	missed  int
	running bool // the timer is set, or a chapter is on its way
	failing bool // and that was said
}

// keepHistory has a diary observe the locks, if the options ask for it.
func (l *Locker) keepHistory() {
	if !l.history || l.invalid != nil {
		return
	}
	store, err := historian(l.backend, l.info)
	if err != nil {
		l.invalid = fmt.Errorf("History: %w", err)
		return
	}
	d := &diary{locker: l, store: store, room: chapterMost}
	l.diary = d
	observe := l.observe
	l.observe = func(ctx context.Context, e Event) {
		d.observe(e)
		if observe != nil {
			observe(ctx, e)
		}
	}
}

// observe notes an event that people want to know of.
func (d *diary) observe(e Event) {
	h := admin.Entry{Name: e.Name, Token: e.Token, Owner: e.owner}
	switch {
	case e.Kind == EventWait:
		h.Type = admin.EntryWaiting
	case e.Kind == EventAcquire && e.Err == nil:
		h.Type, h.Waited = admin.EntryAcquired, e.Waited
	case e.Kind == EventAcquire && e.Blocked:
		h.Type, h.Waited = admin.EntryGaveUp, e.Waited
	case e.Kind == EventRenew && e.Late:
		h.Type, h.Left = admin.EntryRenewedLate, e.left
	case e.Kind == EventRelease && e.Err == nil:
		h.Type, h.HeldFor = admin.EntryReleased, e.Held
	case e.Kind == EventRelease && !errors.Is(e.Err, ErrLost): // of which EventLoss tells
		h.Type, h.HeldFor, h.Reason = admin.EntryReleased, e.Held, "not confirmed"
	case e.Kind == EventLoss:
		h.Type, h.HeldFor, h.Reason = admin.EntryLost, e.Held, string(e.Reason)
	default:
		return
	}
	for k := plain; k <= permit; k++ {
		if k.String() == e.Lock {
			h.Kind, h.Mode = k.shown(), k.mode()
		}
	}
	d.add(h)
}

// forced notes that this Locker ended the hold of another.
func (d *diary) forced(name string, h admin.Holder, why string) {
	if d != nil {
		d.add(admin.Entry{Type: admin.EntryForced, Name: name, Owner: h.Owner, Reason: why})
	}
}

// add takes h into the next chapter, if there is room.
func (d *diary) add(h admin.Entry) {
	h.At = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fits(h) {
		d.pending = append(d.pending, h)
	} else {
		d.missed++
	}
	if !d.running {
		d.running = true
		d.later()
	}
}

// fits takes the room for h, if there is any. The mutex is held.
func (d *diary) fits(h admin.Entry) bool {
	if h.Type.Rare() {
		return len(d.pending) < chapterMost+chapterReserved
	}
	now := d.locker.clock.Now()
	d.room = min(chapterMost, d.room+(now-d.counted).Seconds()*sustained)
	d.counted = now
	if d.room < 1 {
		return false
	}
	d.room--
	return true
}

func (d *diary) later() {
	time.AfterFunc(chapterEvery, func() { d.locker.background.Go(d.turn) })
}

// turn tells what was collected, and comes again for what has happened meanwhile.
func (d *diary) turn() {
	d.tell()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running = len(d.pending)+d.missed > 0; d.running {
		d.later()
	}
}

// tell sends what was collected to the store.
func (d *diary) tell() {
	if chapter, ok := d.chapter(); ok {
		d.locker.tellStore("what happened", func(ctx context.Context) {
			d.told(d.store.AppendLog(ctx, admin.Client{ID: d.locker.id, Note: d.locker.note}, chapter))
		})
	}
}

// chapter takes what was collected.
func (d *diary) chapter() ([]admin.Entry, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	happenings := d.pending
	if d.missed > 0 {
		happenings = append(happenings, admin.Entry{Type: admin.EntryMissed, At: time.Now(), Count: d.missed})
	}
	d.pending, d.missed = nil, 0
	return happenings, len(happenings) > 0
}

// told says once that the history has a hole, until it goes on. What logs may be
// slow, and those who lock and unlock take the mutex.
func (d *diary) told(err error) {
	d.mu.Lock()
	first := err != nil && !d.failing
	d.failing = err != nil
	d.mu.Unlock()
	if first {
		d.locker.log.Warn("the history is not kept for now", "backend", d.locker.info.Name, "err", err)
	}
}

// finishHistory tells what was collected, and waits for that.
func (l *Locker) finishHistory(ctx context.Context) error {
	if l.diary == nil {
		return nil
	}
	l.background.Go(l.diary.tell)
	return l.background.Wait(ctx)
}
