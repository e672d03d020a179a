package supervise

import (
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
)

// Lock has the lock that a command requests, and how the command holds it.
type Lock struct {
	Name   string
	TTL    time.Duration
	Margin time.Duration // how long before the end of its lease the lock counts as lost; 0 means a tenth of the lease

	Nonblock bool
	Wait     time.Duration // for the lock and the store; 0 waits forever for the lock only

	Fair      bool
	Shared    bool
	Exclusive bool
	Permits   int // of a semaphore; 0 for any other kind of lock

	NoRenew bool
	MaxHold time.Duration // 0: as long as it is renewed

	Reason string
	Labels []string // key=value

	ConflictCode int  // the status to exit with if another client holds the lock
	LostCode     int  // if it was lost
	SkipOK       bool // if another client holds the lock, the status is 0, without a message

	keep time.Duration // how long the name stays taken after the grant
}

// MarginOf returns how long before the end of such a lease the lock counts as lost.
func (l *Lock) MarginOf(lease time.Duration) time.Duration {
	if l.Margin > 0 {
		return l.Margin
	}
	return lease / 10
}

// MaxHoldMargin returns how long before MaxHold the lock counts as lost.
func (l *Lock) MaxHoldMargin() time.Duration { return min(l.MarginOf(l.TTL), l.MaxHold/10) }

// MaxKillAfter returns the time from the first renewal, after a third of the lease, until the
// lock counts as lost. The time to kill the command must be shorter: before that renewal
// there is no reason to stop the command.
func (l *Lock) MaxKillAfter(lease time.Duration) time.Duration {
	return lease - lease/3 - l.MarginOf(lease)
}

// leaseOf returns the lease of a lock that was just granted and counts as lost after the time
// left. The store may have granted less than TTL.
func (l *Lock) leaseOf(left time.Duration) time.Duration {
	if l.Margin > 0 {
		return min(l.TTL, left+l.Margin)
	}
	return min(l.TTL, left+left/9)
}

// note returns the note of a holder, which other clients can read.
func (l *Lock) note(program string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	note := fmt.Sprintf("%s@%s:%d", program, host, os.Getpid())
	if l.Reason != "" {
		note += " (" + l.Reason + ")"
	}
	for _, label := range l.Labels {
		note += " " + label
	}
	return note
}

// options returns the options of the lock, without the one for how long to wait.
func (l *Lock) options() (options []holdfast.Option) {
	switch {
	case l.MaxHold > 0: // with NoRenew it is less than TTL, and so not renewed
		options = append(options, holdfast.AtMost(l.MaxHold))
	case l.NoRenew:
		options = append(options, holdfast.Lease(l.TTL))
	}
	if l.keep > 0 {
		options = append(options, holdfast.AtLeast(l.keep))
	}
	return options
}

// mutex returns the lock, if it is not a semaphore.
func (l *Lock) mutex(locker *holdfast.Locker) *holdfast.Mutex {
	switch {
	case l.Fair:
		return locker.FairMutex(l.Name)
	case l.Shared:
		return locker.RWMutex(l.Name).Read
	case l.Exclusive:
		return locker.RWMutex(l.Name).Write
	default:
		return locker.Mutex(l.Name)
	}
}

// kind returns the kind of lock that the flags ask for.
func (l *Lock) kind() admin.Kind {
	switch {
	case l.Permits > 0:
		return admin.KindSemaphore
	case l.Shared, l.Exclusive:
		return admin.KindReadWrite
	case l.Fair:
		return admin.KindFair
	}
	return admin.KindMutex
}
