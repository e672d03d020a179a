// Package audit writes the events of a program's locks to the event log of their store, for
// operators: waits, grants, releases, losses and forced unlocks. A Writer is an observer of the
// Locker:
//
//	log := audit.New(store, nil)
//	locker := holdfast.New(store, &holdfast.Options{Observe: log.Observe})
//	...
//	err := log.Flush(ctx) // before the program ends, after Drain
//
// admin.Console.Log reads the log, and so do `holdfast tail` and the dashboard. A Writer makes
// one small call a second while there are events. No lock waits for it or depends on it. If a
// call fails, the log lacks its entries.
package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
)

const (
	// The constant `every` is how often entries are written. writeLimit bounds one call that
	// writes entries.
	every      = time.Second
	writeLimit = time.Second

	// A burst has at most `most` entries, and the average is at most perSecond entries a
	// second. Rare entries have another limit: an entry is taken if fewer than most+rareRoom
	// entries wait to be written. All further entries are only counted.
	most      = 100
	rareRoom  = 50
	perSecond = 10
)

// Options are the settings of a Writer. The zero value has the defaults.
type Options struct {
	// Note is a text for operators: who ended the holds that the method Forced reports.
	Note string

	// Logger gets one warning when writes begin to fail. Default: no log.
	Logger *slog.Logger
}

// Writer collects entries and writes them once a second. It writes at most 100 entries at once,
// and 10 a second on average. It only counts further entries, and writes their number. Losses,
// late renewals and forced holds have their own limit. It may observe several Lockers. It has a
// timer only while there is something to write, so it needs no Close.
type Writer struct {
	source  admin.Source
	options Options
	writes  background.Group

	mu      sync.Mutex
	pending []admin.Entry
	room    float64 // how many more entries of types that are not rare may be written
	counted time.Time
	missed  int
	last    admin.Client // the client of the entry that was missed last
	running bool         // the timer is set, or a write is under way
	failing bool         // writes fail, and that was logged
}

// New returns a Writer to the event log of s. If the store has no event log, every write
// fails with errors.ErrUnsupported; call s.AppendLog without entries to check. New does
// no I/O. It panics if s is nil; opts may be nil.
func New(s admin.Source, opts *Options) *Writer {
	if s == nil {
		panic("audit: New called with a nil Source")
	}
	w := &Writer{source: s, room: most}
	if opts != nil {
		w.options = *opts
	}
	if w.options.Logger == nil {
		w.options.Logger = slog.New(slog.DiscardHandler)
	}
	return w
}

// Observe adds an entry for an event. It is a function for holdfast.Options.Observe, and
// does not block.
func (w *Writer) Observe(_ context.Context, e holdfast.Event) {
	if entry, ok := entryOf(e); ok {
		entry.Client = admin.Client{ID: e.Client, Note: e.Note}
		w.add(entry)
	}
}

// Forced adds an entry, which says that this program ended the hold h of the lock `name` with a
// forced unlock, for the given reason. See admin.Console.ForceUnlock.
func (w *Writer) Forced(name string, h admin.Holder, reason string) {
	w.add(admin.Entry{
		Type: admin.EntryForced, Name: name, Owner: h.Owner, Reason: reason, Client: admin.Client{Note: w.options.Note},
	})
}

// Flush writes the collected entries. It returns nil when this write and all earlier ones
// have ended, even if they failed. If ctx ends first, it returns ctx's error.
func (w *Writer) Flush(ctx context.Context) error {
	w.writes.Go(w.write)
	return w.writes.Wait(ctx)
}

// entryOf returns the entry for an event. The result `ok` is false if the log does not need an
// entry.
func entryOf(e holdfast.Event) (entry admin.Entry, ok bool) {
	entry = admin.Entry{Name: e.Name, Token: e.Token, Owner: e.Owner}
	switch {
	case e.Type == holdfast.EventWait:
		entry.Type = admin.EntryWaiting
	case e.Type == holdfast.EventAcquire && e.Err == nil:
		entry.Type, entry.Waited = admin.EntryAcquired, e.Waited
	case e.Type == holdfast.EventAcquire && e.Blocked:
		entry.Type, entry.Waited = admin.EntryGaveUp, e.Waited
	case e.Type == holdfast.EventRenew && e.Late:
		entry.Type, entry.Left = admin.EntryRenewedLate, e.Remaining
	case e.Type == holdfast.EventRelease && e.Err == nil:
		entry.Type, entry.HeldFor = admin.EntryReleased, e.HeldFor
	case e.Type == holdfast.EventRelease && !errors.Is(e.Err, holdfast.ErrLost): // EventLoss reports a lost lock
		entry.Type, entry.HeldFor, entry.Reason = admin.EntryReleased, e.HeldFor, "not confirmed"
	case e.Type == holdfast.EventLoss:
		entry.Type, entry.HeldFor, entry.Reason = admin.EntryLost, e.HeldFor, string(e.Reason)
	default:
		return entry, false
	}
	switch e.Kind {
	case "mutex":
		entry.Kind = admin.KindMutex
	case "fair":
		entry.Kind = admin.KindFair
	case "read":
		entry.Kind, entry.Mode = admin.KindReadWrite, driver.Shared
	case "write":
		entry.Kind = admin.KindReadWrite
	case "semaphore":
		entry.Kind, entry.Mode = admin.KindSemaphore, driver.Permit
	}
	return entry, true
}

// add adds an entry, if the limits allow that, and otherwise counts it as missed.
func (w *Writer) add(entry admin.Entry) {
	entry.At = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fits(entry) {
		w.pending = append(w.pending, entry)
	} else {
		w.missed++
		w.last = entry.Client
	}
	if !w.running {
		w.running = true
		w.later()
	}
}

// fits reports whether the limits allow the entry. If they do, it counts the entry. The caller
// holds w.mu.
func (w *Writer) fits(entry admin.Entry) bool {
	if entry.Type.Rare() {
		return len(w.pending) < most+rareRoom
	}
	w.room = min(most, w.room+entry.At.Sub(w.counted).Seconds()*perSecond)
	w.counted = entry.At
	if w.room < 1 {
		return false
	}
	w.room--
	return true
}

func (w *Writer) later() {
	time.AfterFunc(every, func() { w.writes.Go(w.tick) })
}

// tick writes the collected entries, and sets the timer again if further entries were added
// meanwhile.
func (w *Writer) tick() {
	w.write()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running = len(w.pending)+w.missed > 0; w.running {
		w.later()
	}
}

// write sends the collected entries to the store, with one call for each client.
func (w *Writer) write() {
	for entries := w.take(); len(entries) > 0; {
		by := entries[0].Client
		other := func(e admin.Entry) bool { return e.Client != by }
		own := slices.DeleteFunc(slices.Clone(entries), other)
		entries = slices.DeleteFunc(entries, func(e admin.Entry) bool { return !other(e) })
		w.note(w.append(by, own))
	}
}

// take returns the collected entries, and removes them from the Writer.
func (w *Writer) take() []admin.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	entries := w.pending
	if w.missed > 0 {
		entries = append(entries, admin.Entry{Type: admin.EntryMissed, At: time.Now(), Count: w.missed, Client: w.last})
	}
	w.pending, w.missed = nil, 0
	return entries
}

// append makes one call to the store. If the store panics, append returns an error, so that
// no lock fails.
func (w *Writer) append(by admin.Client, entries []admin.Entry) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the store panicked: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	return w.source.AppendLog(ctx, by, entries)
}

// note logs a warning when writes begin to fail. After a successful write, the next error is
// logged again. note logs without the mutex, because the log may be slow, and each event needs
// the mutex.
func (w *Writer) note(err error) {
	w.mu.Lock()
	first := err != nil && !w.failing
	w.failing = err != nil
	w.mu.Unlock()
	if first {
		w.options.Logger.Warn("entries of the event log are missing", "backend", w.source.Info().Name, "err", err)
	}
}
