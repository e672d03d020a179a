package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

const (
	defaultTTL = 30 * time.Second
	minTTL     = 100 * time.Millisecond // less is no time to start and stop a command
	maxTTL     = 100 * 365 * 24 * time.Hour
	maxPermits = 1<<31 - 1 // what a semaphore of Java can have
)

// lockOptions are the flags of commands that take a lock.
type lockOptions struct {
	store.Connection

	nonblock bool
	wait     time.Duration
	ttl      time.Duration
	noRenew  bool
	maxHold  time.Duration // 0: as long as it is renewed

	fair      bool
	shared    bool
	exclusive bool
	permits   int

	conflictCode int
	lostCode     int
	skipOK       bool

	reason  string
	labels  []string
	verbose bool

	name string
	keep time.Duration // the name stays taken so long after the grant

	campaigns bool // it waits for a store that cannot be reached, however long

	store       *store.Store   // nil before it was opened
	console     *admin.Console // of that store
	attempts    *attempts      // to get the lock
	leaseEnd    time.Time      // of the lock, when it was released; zero before
	unconfirmed bool           // its release was not answered in time
}

// addTo adds the flags that say which lock, and what holding it means.
func (o *lockOptions) addTo(f *pflag.FlagSet) {
	o.AddStoreTo(f)
	o.AddSeveralTo(f)
	f.DurationVarP(&o.ttl, "ttl", "t", defaultTTL, "lease time: how long the lock survives if the holder stops renewing; default also $HOLDFAST_TTL")
	f.StringVar(&o.reason, "reason", "", "shown to waiters for the lock")
	o.AddEventLogTo(f)
	f.StringArrayVar(&o.labels, "label", nil, "key=value, shown beside the reason; may be repeated")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "say what happens")
}

// lockSettings are those of commands that take a lock.
func lockSettings() []store.Setting {
	return []store.Setting{
		{Flag: "ttl", Variable: "HOLDFAST_TTL", Key: "lock.ttl"},
		{Flag: "wait", Key: "lock.wait"},
		{Flag: "max-hold", Key: "lock.max_hold"},
		{Flag: "kill-after", Key: "lock.kill_after"},
		{Flag: "fair", Key: "lock.fair"},
	}
}

// addWaitTo adds the flags that say how to wait.
func (o *lockOptions) addWaitTo(f *pflag.FlagSet) {
	f.BoolVarP(&o.nonblock, "nonblock", "n", false, "do not wait if the lock is held")
	f.DurationVarP(&o.wait, "wait", "w", 0, "wait no longer than this; 0 waits forever")
}

// addKindTo adds the flags that say what kind of lock it is. All who use a name
// have to agree on that.
func (o *lockOptions) addKindTo(f *pflag.FlagSet) {
	f.BoolVar(&o.fair, "fair", false, "first come, first served; every client of the lock must use it")
	f.BoolVar(&o.shared, "shared", false, "the read side of a read-write lock: many clients can hold it at once")
	f.BoolVar(&o.exclusive, "exclusive", false, "the write side of a read-write lock, which excludes --shared")
	f.IntVar(&o.permits, "permits", 0, "a semaphore: this many clients can hold the lock at once; the number is stored when the semaphore is new")
}

// complete checks what is common, after the flags were filled in.
func (o *lockOptions) complete(f *pflag.FlagSet) error {
	if !o.Given(f, "ttl", "lock.ttl") && o.Imported != nil && o.Imported.TTL > 0 {
		o.ttl = o.Imported.TTL
	}
	if o.name == "" {
		return output.UsageError("the name of the lock is empty")
	}
	if o.ttl < minTTL {
		return output.UsageError("--ttl %s is too short; use at least %s", o.ttl, minTTL)
	}
	if o.ttl > maxTTL {
		return output.UsageError("--ttl %s is too long; use at most %s", o.ttl, maxTTL)
	}
	if o.wait < 0 {
		return output.UsageError("--wait %s is negative", o.wait)
	}
	if o.nonblock && f.Changed("wait") {
		return output.UsageError("--nonblock does not wait and --wait does; give one of them")
	}
	if m := o.Config.Duration("lock.margin"); m < 0 || m >= o.ttl/2 {
		return output.UsageError("%s of %s does not fit a --ttl of %s: it must be less than half of it", o.Config.Where("lock.margin"), m, o.ttl)
	}
	for _, label := range o.labels {
		if key, _, ok := strings.Cut(label, "="); !ok || key == "" {
			return output.UsageError("--label %q: use key=value", label)
		}
	}
	return o.checkKind(f)
}

func (o *lockOptions) checkKind(f *pflag.FlagSet) error {
	if (o.shared || o.exclusive || o.permits != 0) && !f.Changed("fair") {
		o.fair = false // of the configuration: it is about plain locks
	}
	kinds := 0
	for _, chosen := range []bool{o.fair, o.shared, o.exclusive, o.permits != 0} {
		if chosen {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return output.UsageError("--fair, --shared, --exclusive and --permits are different kinds of lock; give one of them")
	case f.Changed("permits") && o.permits < 1:
		return output.UsageError("--permits %d makes no semaphore; use 1 or more", o.permits)
	case o.permits > maxPermits:
		return output.UsageError("--permits %d are too many; use at most %d", o.permits, maxPermits)
	}
	return nil
}

// margin is how long before the end of its lease the lock counts as lost.
func (o *lockOptions) margin() time.Duration { return o.marginOf(o.ttl) }

// maxHoldMargin is how long before --max-hold the lock counts as lost.
func (o *lockOptions) maxHoldMargin() time.Duration { return min(o.margin(), o.maxHold/10) }

func (o *lockOptions) marginOf(lease time.Duration) time.Duration {
	if m := o.Config.Duration("lock.margin"); m > 0 {
		return m
	}
	return lease / 10
}

// noteOf is what others see of a holder.
func (o *lockOptions) noteOf(program string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	note := fmt.Sprintf("%s@%s:%d", program, host, os.Getpid())
	if o.reason != "" {
		note += " (" + o.reason + ")"
	}
	for _, label := range o.labels {
		note += " " + label
	}
	return note
}

// needs is what the lock that the flags describe needs.
func (o *lockOptions) needs(t *open.Target) error {
	if t.Kind == open.Redis {
		return nil // where it depends on the layout, the library says so
	}
	switch caps := t.Info().Caps; {
	case o.fair && !caps.Fair:
		return store.Lacks(t, "has no fair locks (--fair)")
	case (o.shared || o.exclusive) && !caps.Shared:
		return store.Lacks(t, "has no read-write locks (--shared, --exclusive)")
	case o.permits > 0 && !caps.Permits:
		return store.Lacks(t, "has no semaphores (--permits)")
	}
	return nil
}
