// Package admin is for operators, who read locks and force-unlock them: other
// people's locks too, whatever program took them. Nothing that it returns decides
// the holder of a lock.
//
//	console := admin.New(backend)
//	records, err := console.Get(ctx, "deploy/prod")
//	err = console.ForceUnlock(ctx, "deploy/prod", records[0].Holds[0].Holder, "runner 7 is gone")
//
// It needs no Locker. A store offers it by implementing Source; package admintest
// is the specification of that.
package admin

import (
	"context"
	"errors"
	"iter"

	"github.com/holdfast-go/holdfast/driver"
)

// Source is a store that says what is locked, and lets people interfere. What a
// store cannot do returns an error that is errors.ErrUnsupported.
type Source interface {
	// Info describes the store, as driver.Backend has it.
	Info() driver.Info

	// List yields the names in use, each once, in no order. What changes while it
	// runs may be missing, or be shown as it was. It reads a little at a time, and
	// yields as it reads, so that the first records come at once.
	//
	// It ends with a pair whose error is not nil if it did not see everything:
	// ErrIncomplete when f.Keys was used up, ctx's error when ctx ended, else the
	// store's. Everything yielded before is valid.
	List(ctx context.Context, f Filter) iter.Seq2[Record, error]

	// Get returns the records of names, in the same order; a free name has a Record
	// without a Kind, and one that is no lock has KindOther. The names are not read
	// at the same instant. It costs the store a few commands for each name, so a page
	// of rows can be read each second. Where only some could be read the error is not
	// nil, the others are valid, and those that were not read have KindUnknown.
	Get(ctx context.Context, names ...string) ([]Record, error)

	// Describe returns all that the store knows of one name.
	Describe(ctx context.Context, name string) (Detail, error)

	// ForceUnlock ends exactly the hold h of name, as Get returned it. It records
	// the reason, wakes waiters and notifies the holder. It returns driver.ErrGone,
	// and changes nothing, if that hold is over or has changed.
	ForceUnlock(ctx context.Context, name string, h Holder, reason string) error

	// ForceReasons returns for each of ended the reason that was given to
	// ForceUnlock: "" for a hold that ended otherwise, or so long ago that the store
	// does not know any more. It may cost the store a command for each. On error,
	// some answers may be missing. For an owner that holds the name again, the reason
	// may belong to its hold before.
	ForceReasons(ctx context.Context, ended []Ended) ([]string, error)

	// AppendLog adds to the event log what the client by did; by.ID and by.Note count.
	// It is called about once a second. An error means that some entries may be
	// missing; they are not sent again. Without entries it does no I/O, and says
	// whether the store has an event log.
	AppendLog(ctx context.Context, by Client, entries []Entry) error

	// ReadLog returns entries of all clients in the order in which they were
	// appended, which is about a second after they happened.
	ReadLog(ctx context.Context, f LogFilter) ([]Entry, error)
}

// Ended is a hold that is over.
type Ended struct {
	Name  string
	Owner string // as Holder.Owner
}

// ErrIncomplete says that a List has used up its budget before it saw everything.
var ErrIncomplete = errors.New("not everything was looked at")

// Filter limits a List. How long it may take is said by its context. The zero value
// lists everything, as fast as the store answers.
type Filter struct {
	NamePrefix string // only names that begin with it

	// Keys is how many keys of the store may be looked at, locks or not: in a
	// store that is shared with other data, most are not. 0 means no bound.
	Keys int

	// Pace is how many commands per second the store may be asked to run on
	// average; those that run inside of scripts count. The first page, of some
	// hundred, comes at once. 0 means no bound.
	Pace int

	// Counters lists bare numbers as well, as KindCounter, where the store cannot
	// tell a latch from any other number.
	Counters bool
}
