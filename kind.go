package holdfast

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// kind is what sort of lock a description describes.
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

// supported says that a store has locks of this kind.
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

// mode is how a claim of this kind shares its name with others.
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

// readWrite says that a kind is a side of a read-write lock.
func (k kind) readWrite() bool { return k == reader || k == writer }

// exclusive says that one hold keeps all other claims of this kind out, so that
// those of one process wait for it without asking the store.
func (k kind) exclusive() bool { return k == plain || k == writer }

// unsupported is the error for what a store does not have.
func (l *Locker) unsupported(what string) error {
	return fmt.Errorf("%s has no %s: %w", l.info.Name, what, errors.ErrUnsupported)
}
