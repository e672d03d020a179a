package admintest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/conformance"
	"github.com/holdfast-go/holdfast/internal/uuid"
)

// grain is the time by which Holder.Remaining may be longer than the TTL, because a store may
// round up.
const grain = time.Millisecond

// probe is a conformance.Probe of a Store.
type probe struct {
	*conformance.Probe
	store   Store
	endless bool // Suite.NoRemaining
	brief   bool // Suite.BriefReasons
}

// check runs the check c on a store, with the settings of the Suite s. Each claim belongs to a
// client of its own, because a store may keep one note for all claims of a client.
func (s Suite) check(c check, t testing.TB, store Store) {
	t.Helper()
	info := store.Info()
	ttl := 20 * time.Second
	if info.MaxTTL > 0 {
		ttl = min(ttl, info.MaxTTL)
	}
	of, end := conformance.NewProbe(t, "admintest", store, ttl)
	defer end()
	of.TTL = of.Rounded(ttl)
	of.Shape = func(c *driver.Claim) { *c = conformance.WithClient(*c, uuid.New()) }
	c.body(&probe{Probe: of, store: store, endless: s.NoRemaining, brief: s.BriefReasons})
}

// record returns the Record of the name p.Name.
func (p *probe) record() admin.Record {
	p.Helper()
	records, err := p.store.Get(p.Ctx, p.Name)
	if err != nil || len(records) != 1 || records[0].Name != p.Name {
		p.Fatalf("Get: got %+v and error %v, want the record of %q", records, err, p.Name)
	}
	return records[0]
}

// free requires that no claim holds the name p.Name.
func (p *probe) free(when string) {
	p.Helper()
	if r := p.record(); len(r.Holds) != 0 || r.Holders != 0 {
		p.Errorf("Get %s: got %+v, want no hold", when, r)
	}
}

// holds returns the holds of the name p.Name. It requires that there are n holds, that all
// holds have different owners, and that the Record has the given kind.
func (p *probe) holds(n int, kind admin.Kind, when string) []admin.Hold {
	p.Helper()
	r := p.record()
	owners := map[string]bool{}
	for _, h := range r.Holds {
		owners[h.Owner] = true
		switch {
		case p.endless && h.Remaining >= 0:
			p.Errorf("Get %s: got %v remaining, want less than 0, because the store does not report it", when, h.Remaining)
		case p.endless:
		case p.Info.Caps.ExpiresAlone && (h.Remaining <= 0 || h.Remaining > p.TTL+grain):
			p.Errorf("Get %s: got %v remaining, want more than 0 and at most %v", when, h.Remaining, p.TTL)
		}
	}
	if len(r.Holds) != n || r.Holders != n || len(owners) != n {
		p.Fatalf("Get %s: got %+v, want %d holds", when, r, n)
	}
	if bare := r.Kind == admin.KindPlain || r.Kind == admin.KindTimestamp; r.Kind != kind && (!bare || kind != admin.KindMutex) {
		p.Errorf("Get %s: got kind %q, want %q", when, r.Kind, kind)
	}
	return r.Holds
}

// hold returns the only hold of the name p.Name. It requires that the owner of the hold is that
// of c.
func (p *probe) hold(c driver.Claim, when string) admin.Hold {
	p.Helper()
	h := p.holds(1, admin.KindMutex, when)[0]
	if h.Owner != c.Owner {
		p.Fatalf("Get %s: got %+v, want owner %s", when, h, c.Owner)
	}
	return h
}
