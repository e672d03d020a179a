package admintest

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/admin"
)

func getShowsTheHolder(p *probe) {
	if r := p.record(); r.Kind != "" {
		p.Errorf("Get of a free name: got kind %q, want none", r.Kind)
	}
	p.free("of a free name")
	a, b := p.claim(), p.claim()
	b.NoQueue = true // otherwise b may get a place in a queue, and hold the lock after a
	p.grant(a, "of a free name")
	if o := p.try(b); o.Granted {
		p.Fatalf("Try of a held name: granted")
	}
	h := p.hold(a, "of a held name")
	if h.Note != "" && h.Note != a.Note {
		p.Errorf("Get: got note %q, want %q", h.Note, a.Note)
	}
	p.release(a)
	p.free("after the Release")
}

func getShowsEveryReader(p *probe) {
	a, b := p.reader(), p.reader()
	p.grant(a, "of a free name")
	p.grant(b, "beside another reader")
	for _, h := range p.holds(2, admin.KindReadWrite, "with two readers") {
		if h.Owner != a.Owner && h.Owner != b.Owner {
			p.Errorf("Get: got owner %q, want %s or %s", h.Owner, a.Owner, b.Owner)
		}
	}
	p.release(a)
	p.holds(1, admin.KindReadWrite, "with one reader left")
	p.release(b)
	p.free("after the last reader has left")
}

// getShowsEveryPermit accepts any owner, because Redisson identifies a permit by an id of
// 16 bytes, which a store may show in place of the owner.
func getShowsEveryPermit(p *probe) {
	a, b := p.permit(2), p.permit(2)
	p.grant(a, "of a free name")
	p.grant(b, "beside another permit")
	both := p.holds(2, admin.KindSemaphore, "with two permits out")
	if r := p.record(); r.Permits != 2 || r.Free != 0 {
		p.Errorf("Get: got %d permits, %d of them free; want 2 and 0", r.Permits, r.Free)
	}
	p.release(a)
	left := p.holds(1, admin.KindSemaphore, "with one permit out")[0]
	if !slices.ContainsFunc(both, func(h admin.Hold) bool { return h.Owner == left.Owner }) {
		p.Errorf("Get: got owner %q left of two, want one of %+v", left.Owner, both)
	}
	p.release(b)
	p.free("after the last permit came back")
}

func getAnswersInOrder(p *probe) {
	base := p.name
	a := p.claim()
	p.grant(a, "of a free name")
	p.name = base + " free"
	names := []string{p.name, base, p.name}
	records, err := p.store.Get(p.ctx, names...)
	if err != nil || len(records) != len(names) {
		p.Fatalf("Get of %q: got %+v and error %v", names, records, err)
	}
	for i, r := range records {
		if r.Name != names[i] || (len(r.Holds) == 1) != (r.Name == base) {
			p.Errorf("Get of %q: got %+v in place %d", names, r, i)
		}
	}
}

func getShowsHoldCounts(p *probe) {
	a := p.claim()
	expect := func(want int, when string) {
		p.Helper()
		if h := p.hold(a, when); h.Holds != want {
			p.Errorf("Get %s: got %d holds, want %d", when, h.Holds, want)
		}
	}
	p.grant(a, "of a free name")
	expect(1, "after the grant")
	p.grant(a, "repeated")
	expect(1, "after a repeated Try")
	for _, holds := range []int{2, 3, 3, 1, 2} {
		a.Count = holds
		if err := p.renew(a); err != nil {
			p.Fatalf("Renew with another count: got %v", err)
		}
		expect(holds, "after a Renew")
		p.grant(a, "with the same count, repeated")
		expect(holds, "after a repeated Try")
	}
	p.release(a)
	p.grant(p.claim(), "after one Release of a claim with a count of 2")
}

func getHonoursContext(p *probe) {
	over, cancel := context.WithCancel(p.ctx)
	cancel()
	if _, err := p.store.Get(over, p.name); !errors.Is(err, context.Canceled) {
		p.Errorf("Get with a context that is over: got error %v, want context.Canceled", err)
	}
	if _, err := p.store.Describe(over, p.name); !errors.Is(err, context.Canceled) && !errors.Is(err, errors.ErrUnsupported) {
		p.Errorf("Describe with a context that is over: got error %v, want context.Canceled", err)
	}
}

func listShowsEachNameOnce(p *probe) {
	base, want := p.name, []string{}
	for _, end := range []string{" 1", " 2", " 3"} {
		p.name = base + end
		c := p.claim()
		p.grant(c, "of a free name")
		if end == " 2" {
			p.release(c)
		} else {
			want = append(want, p.name)
		}
	}
	p.name = "other-" + base
	p.grant(p.claim(), "of a name with another prefix")
	var got []string
	for r, err := range p.store.List(p.ctx, admin.Filter{NamePrefix: base}) {
		if err != nil {
			p.Fatalf("List: got error %v", err)
		}
		got = append(got, r.Name)
		if len(r.Holds) != 1 || r.Holders != 1 {
			p.Errorf("List: got %+v, want one hold", r)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		p.Errorf("List: got %q, want %q", got, want)
	}
}

func listHonoursContext(p *probe) {
	over, cancel := context.WithCancel(p.ctx)
	cancel()
	var last error
	for _, err := range p.store.List(over, admin.Filter{NamePrefix: p.name}) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		p.Errorf("List with a context that is over: got error %v, want context.Canceled", last)
	}
}

func describeShowsTheRecord(p *probe) {
	a := p.claim()
	p.grant(a, "of a free name")
	d, err := p.store.Describe(p.ctx, p.name)
	if err != nil || d.Name != p.name || len(d.Holds) != 1 || d.Holds[0].Owner != a.Owner {
		p.Errorf("Describe: got %+v and error %v, want the hold of %s", d, err, a.Owner)
	}
	p.release(a)
	if d, err = p.store.Describe(p.ctx, p.name); err != nil || len(d.Holds) != 0 {
		p.Errorf("Describe after the Release: got %+v and error %v, want no holds", d, err)
	}
}
