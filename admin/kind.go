package admin

import "github.com/holdfast-go/holdfast/driver"

// Kind is the kind of lock that a name is used for.
type Kind string

// Kinds of locks. The empty Kind means a free name.
const (
	// KindMutex is an exclusive lock. A fair lock without waiters looks the same.
	KindMutex Kind = "mutex"
	// KindFair is an exclusive lock whose waiters have a queue.
	KindFair Kind = "fair"
	// KindReadWrite is a read-write lock; Hold.Mode says whether a hold is for reading or
	// writing.
	KindReadWrite Kind = "read-write"
	// KindSemaphore has permits with leases; each permit is a Hold.
	KindSemaphore Kind = "semaphore"
	// KindLatch is a count-down latch that is not open.
	KindLatch Kind = "latch"
	// KindCounter is a number: in Redis a latch, a plain semaphore, or a semaphore
	// without held permits. Their keys look the same.
	KindCounter Kind = "counter"
	// KindMulti is Redisson's lock on several values of one name.
	KindMulti Kind = "multi"
	// KindPlain is a string that identifies the holder, see redishold.Plain.
	KindPlain Kind = "plain"
	// KindTimestamp is a string with the time at which the lock ends, see redishold.Timestamp.
	KindTimestamp Kind = "timestamp"
	// KindOther is a name that is in use for something other than a lock. List leaves it out.
	KindOther Kind = "other"
	// KindUnknown is a name that could not be read. List leaves it out.
	KindUnknown Kind = "unknown"
)

// KindOf returns the Kind for these fields of a driver.Claim.
func KindOf(mode driver.Mode, readWrite, fair bool) Kind {
	switch {
	case mode == driver.Permit:
		return KindSemaphore
	case readWrite || mode == driver.Shared:
		return KindReadWrite
	case fair:
		return KindFair
	default:
		return KindMutex
	}
}
