package redishold

import (
	"cmp"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/fair"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/scripts"
)

// forms has the Form of each kind of lock.
type forms struct {
	only      *kinds.Exclusive // the only form in the layouts Plain and Timestamp; nil in Redisson's layout
	oneKey    *kinds.Exclusive // the form for a lock whose kind does not matter or is unknown: `only`, or `exclusive` in Redisson's layout
	exclusive *kinds.Exclusive
	fair      *fair.Lock
	readWrite *kinds.ReadWrite
	permit    kinds.Form
}

func (b *Backend) newForms() forms {
	exclusive := kinds.Exclusive{Layout: b.layout, Scripts: &b.scripts}
	f := forms{
		oneKey:    &exclusive,
		exclusive: &exclusive,
		fair: &fair.Lock{
			Exclusive: exclusive, Library: &b.library,
			Wait:       cmp.Or(max(b.options.FairWait, 0), fair.DefaultWait),
			GrantsNext: b.options.Replicas == 0, // a release cannot wait for replicas, so the next waiter must make a Try if replicas must acknowledge
		},
		readWrite: kinds.NewReadWrite(exclusive, &b.library),
		permit:    kinds.Semaphore(b.layout, &b.library),
	}
	if p := b.options.Layout; p == Plain || p == Timestamp {
		loaded := scripts.LoadLock(p.String() + "_")
		f.only = &kinds.Exclusive{Layout: b.layout, Scripts: &loaded}
		f.oneKey = f.only
	}
	return f
}

// of returns the Form of the claim c.
func (f *forms) of(c driver.Claim) kinds.Form {
	switch {
	case f.only != nil:
		return f.only
	case c.Mode == driver.Permit:
		return f.permit
	case c.ReadWrite:
		return f.readWrite
	case c.Fair:
		return f.fair
	default:
		return f.exclusive
	}
}
