package admin

import "github.com/holdfast-go/holdfast/driver"

// Kind is what a name is used for.
type Kind string

// Kinds of locks, as people see them. The empty Kind is a name that is free.
const (
	// KindMutex is an exclusive lock. A fair lock for which nobody waits looks like
	// it.
	KindMutex Kind = "mutex"
	// KindFair is an exclusive lock whose waiters have a queue.
	KindFair Kind = "fair"
	// KindReadWrite is a read-write lock; Hold.Mode says which side.
	KindReadWrite Kind = "read-write"
	// KindSemaphore has leased permits; each is a Hold.
	KindSemaphore Kind = "semaphore"
	// KindLatch is a count-down latch that is not open.
	KindLatch Kind = "latch"
	// KindCounter is a number: in Redis a latch, a plain semaphore, or a semaphore
	// none of whose permits is out. Nothing there distinguishes them.
	KindCounter Kind = "counter"
	// KindMulti is Redisson's lock on several values of one name.
	KindMulti Kind = "multi"
	// KindPlain is a string with a unique value, see redishold.Plain.
	KindPlain Kind = "plain"
	// KindTimestamp is a string with the time at which it ends, see
	// redishold.Timestamp.
	KindTimestamp Kind = "timestamp"
	// KindOther is something that is no lock. List leaves it out.
	KindOther Kind = "other"
	// KindUnknown is a name that could not be read. List leaves it out.
	KindUnknown Kind = "unknown"
)

// KindOf returns the kind of lock that a claim of this sort takes, see driver.Claim.
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
