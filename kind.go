package holdfast

import (
	"github.com/holdfast-go/holdfast/driver"
)

// kind is the kind of a lock.
type kind uint8

const (
	plain kind = iota
	fair
	reader
	writer
	permit
)

// String returns the name that logs, metrics and errors use.
func (k kind) String() string {
	return [...]string{"mutex", "fair", "read", "write", "semaphore"}[k]
}

// kindOf returns the kind of a claim.
func kindOf(c *driver.Claim) kind {
	switch {
	case c.Mode == driver.Permit:
		return permit
	case c.Mode == driver.Shared:
		return reader
	case c.ReadWrite:
		return writer
	case c.Fair:
		return fair
	default:
		return plain
	}
}

// supported reports whether a store with the features in c has locks of this kind.
func (k kind) supported(c driver.Caps) bool {
	switch k {
	case fair:
		return c.Fair
	case reader, writer:
		return c.Shared
	case permit:
		return c.Permits
	default:
		return true
	}
}

// mode returns how a claim of this kind shares its name with others.
func (k kind) mode() driver.Mode {
	switch k {
	case reader:
		return driver.Shared
	case permit:
		return driver.Permit
	default:
		return driver.Exclusive
	}
}

// readWrite reports whether the kind is a side of a read-write lock.
func (k kind) readWrite() bool { return k == reader || k == writer }

// exclusive reports whether the claims of this process wait for a hold of this kind without
// asking the store, because one hold excludes all other claims. It returns false for a fair
// lock: each of its claims asks the store, to get a place in the queue there.
func (k kind) exclusive() bool { return k == plain || k == writer }
