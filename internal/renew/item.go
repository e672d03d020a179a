package renew

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Item is something that has a lease. The Scheduler calls Entry and Until while its mutex is
// held. These two methods may lock a mutex of the item. An item must not call the Scheduler
// while it holds that mutex.
type Item interface {
	// Entry returns the data that the Scheduler keeps about the item. It is part of the
	// item, to save an allocation.
	Entry() *Entry

	// Until returns when the item is over, if it is not renewed before.
	Until() clock.Instant

	// Claim returns the claim for a call that is sent at the instant `now`. From then on the
	// store may keep the claim for the claim's TTL, even if the call has no answer.
	Claim(now clock.Instant) driver.Claim

	// Answered records the answer to a call that began at the Moment `start`. The result
	// `found` has the state of the item when the answer came. An answer with an error changes
	// nothing. The result `held` is false if the item is over, for example because the answer
	// came too late. Answered must not log, and must not call an observer.
	Answered(start clock.Moment, answer driver.Renewal) (found Report, held bool)

	// Gone ends the item. The parameter err says that the store does not have the claim any
	// more, or that the store's code panicked. The item must call the function `report`, which
	// reports the answer. It must do so in another goroutine, and before it reports its own
	// end.
	Gone(err error, report func())

	// Expired ends the item when its time is over. The parameter `last` is the last error since
	// the last renewal that succeeded; nil if there was none.
	Expired(last error)
}

// Report is the result of a renewal, for logs and observers.
type Report struct {
	Item   Item
	Token  uint64        // the fencing token of the hold that used the item when the answer came
	Margin time.Duration // how much time was left until the item would have been over
	Left   time.Duration // the rest of the lease in the store
	Fixed  bool          // no renewal extends the item any more; see Scheduler.Add
	Late   bool          // less than a third of the lease was left
	Err    error         // the error of the renewal; nil if it succeeded
}

// Call is a call of Config.Renew that has ended, for observers.
type Call struct {
	Claim *driver.Claim // the first claim of the call
	Took  time.Duration
	Err   error // the error of the call, or of the first claim without an answer; nil if all have answers
}

// Entry is what a Scheduler keeps about an item. The zero Entry is for an item that was not
// added yet. Scheduler.mu guards it.
type Entry struct {
	heapIndex  int32         // its index in the heap, counted from 1; 0 if the item is not in the heap
	failures   int32         // how many renewals of the item have failed in a row
	due        clock.Instant // when the Scheduler has to renew or to end the item
	renewAt    clock.Instant // when to renew it; 0 for never, or while a batch has it
	ready      bool          // its renewal is due, but no call may begin yet
	batch      *batch        // the call that renews it; nil if there is none
	err        error         // the error of the renewals since the last one that succeeded, as retry.ToReport chooses it
	checkEvery time.Duration // the time between two renewals of an item whose end is fixed; 0 if the end is not fixed
	paused     bool          // Prove renews the item, and no other call may renew it in the meantime

	// reporting is true while a renewal of the item is being reported. Of the renewals that end
	// in the meantime, only the latest is reported, after that: if observers are slow, the
	// reports must not pile up.
	reporting bool
}

// idle reports whether the item may be renewed when renewAt has come.
func (e *Entry) idle() bool { return e.batch == nil && !e.ready && !e.paused && e.renewAt != 0 }

// plan sets the field `due` to the instant `until`, when the item is over. If the item may be
// renewed before that, plan sets it to renewAt.
func (e *Entry) plan(until clock.Instant) {
	e.due = until
	if e.idle() {
		e.due = min(e.due, e.renewAt)
	}
}

// lastError returns the last error since the last renewal that succeeded.
func (e *Entry) lastError() error {
	if e.err == nil && (e.batch != nil || e.ready) {
		return retry.ErrNoAnswer // the renewal hangs, or earlier calls hang, so that the renewal cannot begin
	}
	return e.err
}

// schedule is a heap of items, ordered by when they are due.
type schedule []Item

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].Entry().due < s[j].Entry().due }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].Entry().heapIndex, s[j].Entry().heapIndex = int32(i+1), int32(j+1)
}

// Push is for package heap.
func (s *schedule) Push(x any) {
	i := x.(Item)
	*s = append(*s, i)
	i.Entry().heapIndex = int32(len(*s))
}

// Pop is for package heap.
func (s *schedule) Pop() any {
	old := *s
	i := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	i.Entry().heapIndex = 0
	return i
}
