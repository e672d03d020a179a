// Package admin is for operators: it lists the locks that all programs have in a store, and
// ends holds by force. No program may conclude from the results of this package that it holds a
// lock.
//
//	console := admin.New(backend)
//	records, err := console.Get(ctx, "deploy/prod")
//	err = console.ForceUnlock(ctx, "deploy/prod", records[0].Holds[0].Holder, "runner 7 is gone")
//
// A Console needs no Locker. A store must implement Source; package admintest is its
// specification.
package admin

import (
	"context"
	"errors"
	"iter"

	"github.com/holdfast-go/holdfast/driver"
)

// Source is a store that can list its locks and end holds. A method that the store cannot
// perform returns an error that is errors.ErrUnsupported.
type Source interface {
	// Info describes the store, as in driver.Backend.
	Info() driver.Info

	// List yields the names in use, each once, in no order. A lock that changes meanwhile may
	// be missing or outdated. List reads a few keys at a time and yields their records at once,
	// so the first records come soon.
	//
	// If List did not read everything, the last pair has an error: ErrIncomplete if List has
	// read f.Keys keys, ctx's error if ctx has ended, or the error of the store. All records
	// before the error are valid.
	List(ctx context.Context, f Filter) iter.Seq2[Record, error]

	// Get returns one Record for each of the names, in the same order. The Record of a free
	// name has no Kind. If a name is in use for something that is not a lock, its Record has
	// KindOther. The names are not read at the same instant. It costs the store a few commands
	// for each name, so a page of rows can be read each second. If some names could not be
	// read, the error is not nil, these names have KindUnknown, and the other Records are
	// valid.
	Get(ctx context.Context, names ...string) ([]Record, error)

	// Describe returns everything that the store has of one name.
	Describe(ctx context.Context, name string) (Detail, error)

	// ForceUnlock ends exactly the hold h of the lock `name`, as Get returned it. It records
	// the reason, and notifies waiters and the holder. If that hold has ended or changed,
	// ForceUnlock changes nothing and returns driver.ErrGone.
	ForceUnlock(ctx context.Context, name string, h Holder, reason string) error

	// ForceReasons returns one reason for each hold in the parameter `ended`. The reason is the
	// text that was given to ForceUnlock. It is "" if the hold ended in another way, or too
	// long ago. It may cost the store a command for each hold. If it returns an error, some
	// answers may be missing. An owner may hold the same name twice, one after the other. Then
	// the reason of the first hold may be returned for the second.
	ForceReasons(ctx context.Context, ended []Ended) ([]string, error)

	// AppendLog adds entries to the event log. The parameter `by` is the client that reports
	// them; only its ID and Note are used. AppendLog is called about once a second. After an
	// error some entries may be missing; they are not sent again. Without entries it does no
	// I/O, and returns nil if the store has an event log.
	AppendLog(ctx context.Context, by Client, entries []Entry) error

	// ReadLog returns entries of all clients, in the order in which they were written. Clients
	// write them about a second after the events.
	ReadLog(ctx context.Context, f LogFilter) ([]Entry, error)
}

// Ended is a hold that has ended.
type Ended struct {
	Name  string
	Owner string // as in Holder.Owner
}

// ErrIncomplete is the error of a List that reached Filter.Keys before it had read
// everything.
var ErrIncomplete = errors.New("not everything was looked at")

// Filter limits a List. The context of List limits its time. The zero value lists
// everything, as fast as the store answers.
type Filter struct {
	NamePrefix string // only names with this prefix

	// Keys limits how many keys of the store are read, including keys that are not locks.
	// 0 means no limit.
	Keys int

	// Pace limits the commands per second that a List makes the store run, on average,
	// including commands inside scripts. The first few hundred commands run at once. 0 means
	// no limit.
	Pace int

	// Counters means that List also yields bare numbers, as KindCounter, if the store cannot
	// tell a latch from another number.
	Counters bool

	// Skip is called with each name that List finds, if it is not nil. If it returns true, List
	// need not read the state of the name: it may yield a Record of KindUnknown for it. A caller
	// that knows most names already so finds new ones soon, also with a Pace. A store that reads
	// names and states together does not call Skip, and yields all states.
	Skip func(name string) bool

	// Progress is called while List reads, if it is not nil, with the number of keys that List
	// has looked at so far, and the number of keys that the store has, which is approximate. A
	// store that does not know that number does not call Progress.
	Progress func(keys, all int)
}
