package supervise

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
)

// forever is the value of Lock.Wait that means no limit, neither for the lock nor for the store.
const forever = -1

// Lock has the lock that a command requests, and how the command holds it.
type Lock struct {
	Name   string
	TTL    time.Duration
	Margin time.Duration // how long before the end of its lease the lock counts as lost; 0 means a tenth of the lease

	Nonblock bool
	Wait     time.Duration // for the store and the lock together; 0: no wait for the store, no limit for the lock; negative: no limit

	Fair      bool
	Shared    bool
	Exclusive bool
	Permits   int // the number of permits of a semaphore; 0 for any other kind of lock

	NoRenew bool
	MaxHold time.Duration // the longest time to hold the lock; 0 means no limit

	Reason string
	Labels []string // key=value

	ConflictCode int  // the status to exit with if another client holds the lock
	LostCode     int  // the status if the lock was lost
	SkipOK       bool // if another client holds the lock, the status is 0, without a message

	keep time.Duration // how long the name stays taken at least, from the grant on
}

// MarginOf returns how long before the end of a lease of this length the lock counts as lost.
func (l *Lock) MarginOf(lease time.Duration) time.Duration {
	if l.Margin > 0 {
		return l.Margin
	}
	return lease / 10
}

// MaxHoldMargin returns how long before MaxHold the lock counts as lost.
func (l *Lock) MaxHoldMargin() time.Duration { return min(l.MarginOf(l.TTL), l.MaxHold/10) }

// MaxKillAfter returns the time between the first renewal, which is due after a third of the
// lease, and the loss of a lock that is not renewed. Command.KillAfter must be shorter.
// Otherwise the command would get the stop signal before the first renewal.
func (l *Lock) MaxKillAfter(lease time.Duration) time.Duration {
	return lease - lease/3 - l.MarginOf(lease)
}

// leaseOf returns the lease of a lock that was just granted. The parameter `left` is the time
// until the lock counts as lost. The store may have granted less than TTL.
func (l *Lock) leaseOf(left time.Duration) time.Duration {
	if l.Margin > 0 {
		return min(l.TTL, left+l.Margin)
	}
	return min(l.TTL, left+left/9)
}

// note returns the note of a holder, which other clients can read.
func (l *Lock) note(program string) string {
	host, _ := os.Hostname()
	note := fmt.Sprintf("%s@%s:%d", program, cmp.Or(host, "unknown"), os.Getpid())
	if l.Reason != "" {
		note += " (" + l.Reason + ")"
	}
	for _, label := range l.Labels {
		note += " " + label
	}
	return note
}

// options returns the options of the lock.
func (l *Lock) options() (options []holdfast.Option) {
	switch {
	case l.MaxHold > 0: // with NoRenew, MaxHold is less than TTL, so there is no renewal
		options = append(options, holdfast.AtMost(l.MaxHold))
	case l.NoRenew:
		options = append(options, holdfast.FixedLease(l.TTL))
	}
	if l.keep > 0 {
		options = append(options, holdfast.AtLeast(l.keep))
	}
	if l.Nonblock || l.Wait > 0 {
		options = append(options, holdfast.Wait(l.Wait)) // 0 does not wait
	}
	// An operator may repair a refusal while the program waits. session.wait shows it.
	return append(options, holdfast.RetryRefused(nil))
}

// take requests the lock from locker.
func (l *Lock) take(ctx context.Context, locker *holdfast.Locker) (*holdfast.Lock, error) {
	options := l.options()
	switch {
	case l.Permits > 0:
		return locker.Semaphore(l.Name, l.Permits).Acquire(ctx, options...)
	case l.Fair:
		return locker.FairMutex(l.Name).Lock(ctx, options...)
	case l.Shared:
		return locker.RWMutex(l.Name).Read.Lock(ctx, options...)
	case l.Exclusive:
		return locker.RWMutex(l.Name).Write.Lock(ctx, options...)
	}
	return locker.Mutex(l.Name).Lock(ctx, options...)
}
