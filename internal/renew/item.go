package renew

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Item is something that has a lease. The Scheduler calls Entry and Until while its mutex
// is held: an item may lock a mutex of its own in them, and must not call the Scheduler
// while it holds that.
type Item interface {
	// Entry returns what the Scheduler keeps of the item: part of the item, so that it
	// needs no memory of its own.
	Entry() *Entry

	// Until returns when the item is over, unless it is renewed by then.
	Until() clock.Instant

	// Claim returns the claim as a call that is sent now shall carry it. Whatever becomes
	// of the answer, the store may keep the claim from then on for as long as it says.
	Claim(now clock.Instant) driver.Claim

	// Answered records what was answered to a call that began at start, and returns how
	// the answer found the item. An answer with an error changes nothing. held is false
	// where the item is over, also where the answer came too late. Nothing may be logged
	// or observed here.
	Answered(start clock.Moment, answer driver.Renewal) (found Report, held bool)

	// Gone ends the item, which was lost by err: the store says that it holds nothing of
	// the claim, or it panicked. report reports the answer: it has to be called, in a
	// goroutine of its own, before the end of the item is reported.
	Gone(err error, report func())

	// Expired ends the item, whose time has passed. last is what went wrong since the last
	// renewal that succeeded, nil if nothing did.
	Expired(last error)
}

// Report is what a renewal found, for logs and observers.
type Report struct {
	Item   Item
	Token  uint64        // of the hold that had the item when the answer came
	Margin time.Duration // what was left until the item would have been over
	Left   time.Duration // what was left of the lease in the store
	Fixed  bool          // no renewal extends it any more, see Scheduler.Add
	Late   bool          // there was so little left that something is wrong
	Err    error         // the renewal failed; nil if it succeeded
}

// Call is a call of Config.Renew that has ended, for observers.
type Call struct {
	Claim *driver.Claim // the first one
	Took  time.Duration
	Err   error // of the call; a claim of it may have had an error of its own
}

// Entry is what a Scheduler knows of an item. The zero Entry belongs to an item that was
// not added yet. Scheduler.mu guards it.
type Entry struct {
	place    int32         // in the heap, counted from 1; 0 if the item is not in it
	failures int32         // in a row
	due      clock.Instant // when to look at the item: to renew it, or because it is over
	renewAt  clock.Instant // when to renew it; 0 for never, or not before the batch has returned
	ready    bool          // it is due, and waits for a call that may begin
	batch    *batch        // which carries it; nil if none does
	err      error         // what went wrong, see retry.ToReport
	checked  time.Duration // how often it is checked, once its end is fixed; 0 where renewals move its end
	paused   bool          // it is being proved: no renewal meanwhile

	// reporting is true while a renewal of the item is being reported. Others are not
	// reported meanwhile: who listens slowly must not fall behind without end.
	reporting bool
}

// idle says that a renewal may be sent.
func (e *Entry) idle() bool { return e.batch == nil && !e.ready && !e.paused && e.renewAt != 0 }

// plan sets when to look at the item next.
func (e *Entry) plan(until clock.Instant) {
	e.due = until
	if e.idle() {
		e.due = min(e.due, e.renewAt)
	}
}

// trouble returns what has gone wrong since the last renewal that succeeded.
func (e *Entry) trouble() error {
	if e.err == nil && (e.batch != nil || e.ready) {
		return retry.ErrNoAnswer // its renewal hangs, or those before it do
	}
	return e.err
}

// schedule is a heap of items by when they are due.
type schedule []Item

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].Entry().due < s[j].Entry().due }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].Entry().place, s[j].Entry().place = int32(i+1), int32(j+1)
}

// Push is for package heap.
func (s *schedule) Push(x any) {
	i := x.(Item)
	*s = append(*s, i)
	i.Entry().place = int32(len(*s))
}

// Pop is for package heap.
func (s *schedule) Pop() any {
	old := *s
	i := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	i.Entry().place = 0
	return i
}
