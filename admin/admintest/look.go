package admintest

import (
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/admin"
)

func getShowsTheHolder(p *probe) {
	if r := p.record(); r.Kind != "" {
		p.Errorf("Get of a free name: got kind %q, want none", r.Kind)
	}
	p.free("of a free name")
	a, b := p.Claim(), p.Passing() // claim b must not queue, because it might then get the lock after claim a
	p.MustGrant(a, "of a free name")
	p.MustRefuse(b, "of a held name")
	h := p.hold(a, "of a held name")
	if h.Note != "" && h.Note != a.Note {
		p.Errorf("Get: got note %q, want %q", h.Note, a.Note)
	}
	p.MustRelease(a, "of a held claim")
	p.free("after the Release")
}

func getShowsEveryReader(p *probe) {
	a, b := p.Reader(), p.Reader()
	p.MustGrant(a, "of a free name")
	p.MustGrant(b, "beside another reader")
	for _, h := range p.holds(2, admin.KindReadWrite, "with two readers") {
		if h.Owner != a.Owner && h.Owner != b.Owner {
			p.Errorf("Get: got owner %q, want %s or %s", h.Owner, a.Owner, b.Owner)
		}
	}
	p.MustRelease(a, "of a held claim")
	p.holds(1, admin.KindReadWrite, "with one reader left")
	p.MustRelease(b, "of a held claim")
	p.free("after the last reader has left")
}

// getShowsEveryPermit accepts any owner, because Redisson identifies a permit by an id of
// 16 bytes, which a store may show in place of the owner.
func getShowsEveryPermit(p *probe) {
	a, b := p.Permit(2), p.Permit(2)
	p.MustGrant(a, "of a free name")
	p.MustGrant(b, "beside another permit")
	both := p.holds(2, admin.KindSemaphore, "with two permits held")
	if r := p.record(); r.Permits != 2 || r.Free != 0 {
		p.Errorf("Get: got %d permits, %d of them free; want 2 and 0", r.Permits, r.Free)
	}
	p.MustRelease(a, "of a held claim")
	left := p.holds(1, admin.KindSemaphore, "with one permit held")[0]
	if !slices.ContainsFunc(both, func(h admin.Hold) bool { return h.Owner == left.Owner }) {
		p.Errorf("Get after one of two permits came back: got owner %q, want one of %+v", left.Owner, both)
	}
	p.MustRelease(b, "of a held claim")
	p.free("after the last permit came back")
}

func getAnswersInOrder(p *probe) {
	base := p.Name
	a := p.Claim()
	p.MustGrant(a, "of a free name")
	p.Name = base + " free"
	names := []string{p.Name, base, p.Name}
	records, err := p.store.Get(p.Ctx, names...)
	if err != nil || len(records) != len(names) {
		p.Fatalf("Get of %q: got %+v and error %v", names, records, err)
	}
	for i, r := range records {
		if r.Name != names[i] || (len(r.Holds) == 1) != (r.Name == base) {
			p.Errorf("Get of %q: got %+v as result %d", names, r, i)
		}
	}
}

func getShowsHoldCounts(p *probe) {
	a := p.Claim()
	expect := func(want int, when string) {
		p.Helper()
		if h := p.hold(a, when); h.Holds != want {
			p.Errorf("Get %s: got %d holds, want %d", when, h.Holds, want)
		}
	}
	p.MustGrant(a, "of a free name")
	expect(1, "after the grant")
	p.MustGrant(a, "repeated")
	expect(1, "after a repeated Try")
	for _, holds := range []int{2, 3, 3, 1, 2} {
		a.Count = holds
		p.MustRenew(a, "with another count")
		expect(holds, "after a Renew")
		p.MustGrant(a, "with the same count, repeated")
		expect(holds, "after a repeated Try")
	}
	p.MustRelease(a, "of a held claim")
	p.MustGrant(p.Claim(), "after one Release of a claim with a count of 2")
}

func getHonoursContext(p *probe) {
	_, err := p.store.Get(p.Cancelled(), p.Name)
	p.MustBeCancelled(err, "Get with a context that has ended")
	if _, err = p.store.Describe(p.Cancelled(), p.Name); !errors.Is(err, errors.ErrUnsupported) {
		p.MustBeCancelled(err, "Describe with a context that has ended")
	}
}

func listShowsEachNameOnce(p *probe) {
	base, want := p.Name, []string{}
	for _, end := range []string{" 1", " 2", " 3"} {
		p.Name = base + end
		c := p.Claim()
		p.MustGrant(c, "of a free name")
		if end == " 2" {
			p.MustRelease(c, "of a held claim")
		} else {
			want = append(want, p.Name)
		}
	}
	p.Name = "other-" + base
	p.MustGrant(p.Claim(), "of a name with another prefix")
	var got []string
	for r, err := range p.store.List(p.Ctx, admin.Filter{NamePrefix: base}) {
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

// listSkipsStatesOnly requires that a List with Filter.Skip has all names, and all states but
// those that it may leave out.
func listSkipsStatesOnly(p *probe) {
	base := p.Name
	want := []string{base + " 1", base + " 2", base + " 3"}
	for _, p.Name = range want {
		p.MustGrant(p.Claim(), "of a free name")
	}
	var got []string
	skip := func(name string) bool { return name == want[1] }
	for r, err := range p.store.List(p.Ctx, admin.Filter{NamePrefix: base, Skip: skip}) {
		if err != nil {
			p.Fatalf("List with Skip: got error %v", err)
		}
		got = append(got, r.Name)
		if left := r.Kind == admin.KindUnknown; left && !skip(r.Name) || !left && len(r.Holds) != 1 {
			p.Errorf("List with Skip: got %+v, want one hold, or no state of %q only", r, want[1])
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		p.Errorf("List with Skip: got %q, want %q", got, want)
	}
}

func listHonoursContext(p *probe) {
	var last error
	for _, err := range p.store.List(p.Cancelled(), admin.Filter{NamePrefix: p.Name}) {
		last = err
	}
	p.MustBeCancelled(last, "List with a context that has ended")
}

func describeShowsTheRecord(p *probe) {
	a := p.Claim()
	p.MustGrant(a, "of a free name")
	d, err := p.store.Describe(p.Ctx, p.Name)
	if err != nil || d.Name != p.Name || len(d.Holds) != 1 || d.Holds[0].Owner != a.Owner {
		p.Errorf("Describe: got %+v and error %v, want the hold of %s", d, err, a.Owner)
	}
	p.MustRelease(a, "of a held claim")
	if d, err = p.store.Describe(p.Ctx, p.Name); err != nil || len(d.Holds) != 0 {
		p.Errorf("Describe after the Release: got %+v and error %v, want no holds", d, err)
	}
}
