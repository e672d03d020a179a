package versioned

import (
	"context"
	"errors"
	"time"
)

// Version identifies one write of a document: no two writes of a name have the same Version. "" is
// the Version of a name without a document.
type Version string

// ErrVersion says that the document has another Version than the call expects, and that the call
// has written nothing.
var ErrVersion = errors.New("the document has another version")

// Item is what a Store has of one name.
type Item struct {
	Data    []byte // nil if there is no document
	Version Version

	// Age is the time since the document was written, by the clock of the store. It may be shorter
	// than the real time, but never longer. It is negative if the store has no clock.
	Age time.Duration
}

// Write is a conditional write: it takes effect only if the document still has the Version At.
type Write struct {
	Name string
	Data []byte
	At   Version

	// Durable says that the write grants a claim or sets a number: the store must not lose it, also if
	// the power fails. A store may lose another write then.
	Durable bool

	// Waited says that somebody waits for the name. A store with notifications need notify others
	// only of such writes.
	Waited bool
}

// Store has a document for each name, and conditional writes. Different names have different
// documents, also if they differ only in case, and whatever bytes they have.
//
// A method returns soon after its context has ended. It returns an error of package driver only if
// it is certain that this error applies. After any other error of Put but ErrVersion, nobody knows
// whether the write took effect, or will.
type Store interface {
	// Get returns the document that was written last, and never an earlier one. The Item of a name
	// without a document is zero, but for Age, which has no meaning.
	Get(ctx context.Context, name string) (Item, error)

	// Put writes a document if the condition of w holds, and returns the new Version. Otherwise it
	// returns ErrVersion.
	Put(ctx context.Context, w Write) (Version, error)

	// Page returns documents whose names begin with `prefix` and are larger than `after`, in the
	// order of the bytes of their names. It returns the first of them, and not more than `most`.
	Page(ctx context.Context, prefix, after string, most int) ([]Named, error)
}

// Named is an Item with its name.
type Named struct {
	Name string
	Item
}

// Batcher is a Store that reads, and writes, several documents with one call.
type Batcher interface {
	// GetAll returns an Item for each of the names, which differ, in the same order.
	GetAll(ctx context.Context, names []string) ([]Item, error)

	// PutAll makes writes of different names. It returns one Written for each of them, in the same
	// order. If it returns an error, that is the error of each write.
	PutAll(ctx context.Context, all []Write) ([]Written, error)
}

// Written is what Put returns.
type Written struct {
	Version Version
	Err     error
}

// Presence is a Store that knows whether a client lives.
type Presence interface {
	// Arrive is called before the first claim of a client, see driver.Claim.Client. From then on
	// others find the client.
	Arrive(client string) error

	// Departed reports whether a client that had arrived has certainly ended: it will not write any
	// more, and nobody works under its locks. It returns false if that is not certain.
	Departed(client string) bool
}

// Watcher is a Store that reports changes.
type Watcher interface {
	// Watch calls the function `live` once; after that call it misses no write that has
	// Write.Waited. For each such write it calls the function `changed`, soon after the write. It
	// may call `changed` for other writes, too. Watch returns when ctx ends, or when it may miss
	// writes. It returns errors.ErrUnsupported if it can never watch.
	Watch(ctx context.Context, live func(), changed func(name string, v Version)) error
}
