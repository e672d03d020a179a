package redishold

import (
	"cmp"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/fair"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/scripts"
)

// forms are how the kinds of lock are kept.
type forms struct {
	only      *kinds.Exclusive // of a protocol other than Redisson's, which has no other form; nil for that
	oneKey    *kinds.Exclusive // that, or exclusive
	exclusive *kinds.Exclusive
	fair      *fair.Lock
	readWrite kinds.Form
	permit    kinds.Form
}

func (b *Backend) newForms() forms {
	exclusive := kinds.Exclusive{Layout: b.layout, Scripts: &b.scripts}
	f := forms{
		oneKey:    &exclusive,
		exclusive: &exclusive,
		fair: &fair.Lock{
			Exclusive: exclusive, Library: &b.library,
			Wait:  cmp.Or(max(b.options.FairWait, 0), fair.DefaultWait),
			Gives: b.options.Replicas == 0, // where replicas have to acknowledge what the next one gets, it has to ask
		},
		readWrite: kinds.ReadWrite(exclusive, &b.library),
		permit:    kinds.Semaphore(b.layout, &b.library),
	}
	if p := b.options.Layout; p == Plain || p == Timestamp {
		loaded := scripts.LoadLock(p.String() + "_")
		f.only = &kinds.Exclusive{Layout: b.layout, Scripts: &loaded}
		f.oneKey = f.only
	}
	return f
}

// of returns how c is kept.
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
