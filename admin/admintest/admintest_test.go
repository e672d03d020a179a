package admintest

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/conformance"
	"github.com/holdfast-go/holdfast/memhold"
)

// judge runs a check on s, in a bubble, and returns its complaints.
func judge(t *testing.T, c check, open func() Store) *conformance.Recorder {
	t.Helper()
	var rec conformance.Recorder
	synctest.Test(t, func(*testing.T) { rec.Watch(func() { Suite{}.check(c, &rec, open()) }) })
	return &rec
}

// mutant is memhold with a bug: each function that is not nil replaces the right one.
type mutant struct {
	*memhold.Backend
	get     func(admin.Record) admin.Record
	all     func(context.Context, []string) ([]admin.Record, error)
	list    func(context.Context, admin.Filter) iter.Seq2[admin.Record, error]
	detail  func(admin.Detail) admin.Detail
	force   func(context.Context, string, admin.Holder, string) error
	reasons func([]string) []string
	read    func(context.Context, admin.LogFilter) ([]admin.Entry, error)
	try     func(context.Context, driver.Claim) (driver.Outcome, error)
	renew   func(context.Context, []driver.Claim) ([]driver.Renewal, error)
}

func (m *mutant) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	if m.all != nil {
		return m.all(ctx, names)
	}
	records, err := m.Backend.Get(ctx, names...)
	for i := range records {
		if m.get != nil {
			records[i] = m.get(records[i])
		}
	}
	return records, err
}

func (m *mutant) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	if m.list != nil {
		return m.list(ctx, f)
	}
	return m.Backend.List(ctx, f)
}

func (m *mutant) Describe(ctx context.Context, name string) (admin.Detail, error) {
	d, err := m.Backend.Describe(ctx, name)
	if m.detail != nil {
		d = m.detail(d)
	}
	return d, err
}

func (m *mutant) ForceUnlock(ctx context.Context, name string, h admin.Holder, why string) error {
	if m.force != nil {
		return m.force(ctx, name, h, why)
	}
	return m.Backend.ForceUnlock(ctx, name, h, why)
}

func (m *mutant) ForceReasons(ctx context.Context, ended []admin.Ended) ([]string, error) {
	why, err := m.Backend.ForceReasons(ctx, ended)
	if m.reasons != nil {
		why = m.reasons(why)
	}
	return why, err
}

func (m *mutant) ReadLog(ctx context.Context, f admin.LogFilter) ([]admin.Entry, error) {
	if m.read != nil {
		return m.read(ctx, f)
	}
	return m.Backend.ReadLog(ctx, f)
}

func (m *mutant) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	if m.try != nil {
		return m.try(ctx, c)
	}
	return m.Backend.Try(ctx, c)
}

func (m *mutant) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	if m.renew != nil {
		return m.renew(ctx, cs)
	}
	return m.Backend.Renew(ctx, cs)
}

// bug is one fault of a store, and the checks that must find it.
type bug struct {
	name  string
	fails []string
	plant func(*mutant)
}

func bugs() []bug {
	forget := context.WithoutCancel
	return []bug{
		{"shows nobody", []string{"Get/ShowsTheHolder", "Get/ShowsEveryReader", "Get/ShowsEveryPermit", "Get/AnswersInOrder"}, func(m *mutant) {
			m.get = func(r admin.Record) admin.Record { return admin.Record{Name: r.Name} }
		}},
		{"shows a lease without an end", []string{"Get/ShowsTheHolder"}, func(m *mutant) {
			m.get = func(r admin.Record) admin.Record {
				for i := range r.Holds {
					r.Holds[i].Remaining = -1
				}
				return r
			}
		}},
		{"shows one holder of many", []string{"Get/ShowsEveryReader", "Get/ShowsEveryPermit"}, func(m *mutant) {
			m.get = func(r admin.Record) admin.Record {
				r.Holds = r.Holds[:min(len(r.Holds), 1)]
				return r
			}
		}},
		{"does not count what is free", []string{"Get/ShowsEveryPermit"}, func(m *mutant) {
			m.get = func(r admin.Record) admin.Record {
				r.Free = r.Permits
				return r
			}
		}},
		{"answers each name once", []string{"Get/AnswersInOrder"}, func(m *mutant) {
			m.all = func(ctx context.Context, names []string) ([]admin.Record, error) {
				return m.Backend.Get(ctx, names[:min(len(names), 2)]...)
			}
		}},
		{"counts a repeated try", []string{"Get/ShowsHoldCounts"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				if r, _ := m.Backend.Get(ctx, c.Name); len(r[0].Holds) == 1 && r[0].Holds[0].Owner == c.Owner {
					c.Count = r[0].Holds[0].Holds + 1
				}
				return m.Backend.Try(ctx, c)
			}
		}},
		{"does not record the count of a renewal", []string{"Get/ShowsHoldCounts"}, func(m *mutant) {
			m.renew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				cs[0].Count = 1
				return m.Backend.Renew(ctx, cs)
			}
		}},
		{"ignores contexts", []string{"Get/HonoursContext", "List/HonoursContext"}, func(m *mutant) {
			m.all = func(ctx context.Context, names []string) ([]admin.Record, error) {
				return m.Backend.Get(forget(ctx), names...)
			}
			m.list = func(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
				return m.Backend.List(forget(ctx), f)
			}
		}},
		{"lists all prefixes", []string{"List/ShowsEachNameOnce"}, func(m *mutant) {
			m.list = func(ctx context.Context, _ admin.Filter) iter.Seq2[admin.Record, error] {
				return m.Backend.List(ctx, admin.Filter{})
			}
		}},
		{"does not list what is skipped", []string{"List/SkipsStatesOnly"}, func(m *mutant) {
			m.list = func(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
				return func(yield func(admin.Record, error) bool) {
					for r, err := range m.Backend.List(ctx, f) {
						if (f.Skip == nil || !f.Skip(r.Name)) && !yield(r, err) {
							return
						}
					}
				}
			}
		}},
		{"skips more than it may", []string{"List/SkipsStatesOnly"}, func(m *mutant) {
			m.list = func(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
				return func(yield func(admin.Record, error) bool) {
					for r := range m.Backend.List(ctx, f) {
						if !yield(admin.Record{Name: r.Name, Kind: admin.KindUnknown}, nil) {
							return
						}
					}
				}
			}
		}},
		{"describes nothing", []string{"Describe/ShowsTheRecord"}, func(m *mutant) {
			m.detail = func(admin.Detail) admin.Detail { return admin.Detail{} }
		}},
		{"ends whatever hold there is", []string{"ForceUnlock/OfChangedHoldIsGone", "ForceUnlock/EndsThatHoldOnly"}, func(m *mutant) {
			m.force = func(ctx context.Context, name string, h admin.Holder, why string) error {
				r, _ := m.Backend.Get(ctx, name)
				if n := len(r[0].Holds); n > 0 {
					h = r[0].Holds[n-1].Holder
				}
				return m.Backend.ForceUnlock(ctx, name, h, why)
			}
		}},
		{"ends a hold without a reason", []string{"ForceUnlock/EndsTheHold"}, func(m *mutant) {
			m.force = func(ctx context.Context, name string, h admin.Holder, _ string) error {
				return m.Release(ctx, driver.Claim{Name: name, Owner: h.Owner})
			}
		}},
		{"keeps a name in spite of force", []string{"ForceUnlock/FreesWhatIsKept"}, func(m *mutant) {
			m.force = func(ctx context.Context, name string, h admin.Holder, why string) error {
				h.Owner = strings.TrimSuffix(h.Owner, driver.KeptOwner)
				return m.Backend.ForceUnlock(ctx, name, h, why)
			}
		}},
		{"calls every end forced", []string{"ForceUnlock/IsRemembered"}, func(m *mutant) {
			m.reasons = func([]string) []string { return []string{reason, reason} }
		}},
		{"begins its log anew each time", []string{"Log/IsKept"}, func(m *mutant) {
			m.read = func(ctx context.Context, f admin.LogFilter) ([]admin.Entry, error) {
				f.After, f.Last = "", time.Hour
				return m.Backend.ReadLog(ctx, f)
			}
		}},
	}
}

func checkNamed(t *testing.T, name string) check {
	for _, c := range checks() {
		if c.name == name {
			return c
		}
	}
	t.Errorf("no check is named %q", name)
	return check{body: func(*probe) {}}
}

// TestChecksPassWithoutBug is the control of the test below: it shows that the bug fails a
// check, and not the recorder or the wrapper.
func TestChecksPassWithoutBug(t *testing.T) {
	for _, c := range checks() {
		if rec := judge(t, c, func() Store { return &mutant{Backend: memhold.New()} }); len(rec.Complaints) > 0 {
			t.Errorf("%s complains of a store without a bug: %q", c.name, rec.Complaints)
		}
	}
}

// TestChecksFindBugs shows that each check can fail, and does so for the bug that it has to
// find.
func TestChecksFindBugs(t *testing.T) {
	unproven := map[string]bool{}
	for _, c := range checks() {
		unproven[c.name] = true
	}
	for _, bug := range bugs() {
		for _, name := range bug.fails {
			delete(unproven, name)
			rec := judge(t, checkNamed(t, name), func() Store {
				m := &mutant{Backend: memhold.New()}
				bug.plant(m)
				return m
			})
			if len(rec.Complaints) == 0 {
				t.Errorf("%s passes a store that %s", name, bug.name)
			}
			t.Logf("%s, %s: %s", name, bug.name, strings.Join(rec.Complaints, "\n\t"))
		}
	}
	for name := range unproven {
		t.Errorf("no bug shows that %s can fail", name)
	}
}

// silent is a store whose methods of admin.Source are not supported.
type silent struct{ *memhold.Backend }

func (silent) Get(context.Context, ...string) ([]admin.Record, error) {
	return nil, errors.ErrUnsupported
}

func TestSuiteSkipsWhatIsNotThere(t *testing.T) {
	for name, want := range map[string]string{"Get/ShowsTheHolder": "Get", "List/ShowsEachNameOnce": ""} {
		if got := checkNamed(t, name).missing(silent{memhold.New()}); got != want {
			t.Errorf("%s: got %q missing, want %q", name, got, want)
		}
	}
}

// TestNoRemaining is about a store that reports the remaining time of a lease although its
// suite says that it does not, and about one that does not report it.
func TestNoRemaining(t *testing.T) {
	tells := &mutant{Backend: memhold.New()}
	silent := &mutant{Backend: memhold.New(), get: func(r admin.Record) admin.Record {
		for i := range r.Holds {
			r.Holds[i].Remaining = -1
		}
		return r
	}}
	for store, complaints := range map[*mutant]bool{tells: true, silent: false} {
		var rec conformance.Recorder
		rec.Watch(func() { Suite{NoRemaining: true}.check(checkNamed(t, "Get/ShowsTheHolder"), &rec, store) })
		if (len(rec.Complaints) > 0) != complaints {
			t.Errorf("got %q, want complaints: %v", rec.Complaints, complaints)
		}
	}
}

// TestBriefReasons is about stores that keep the reason of a forced unlock until the name
// is granted again, and one that never has it.
func TestBriefReasons(t *testing.T) {
	keeps, never := &mutant{Backend: memhold.New()}, &mutant{Backend: memhold.New()}
	never.force = func(ctx context.Context, name string, h admin.Holder, _ string) error {
		return never.Release(ctx, driver.Claim{Name: name, Owner: h.Owner})
	}
	for store, complaints := range map[*mutant]bool{keeps: false, never: true} {
		var rec conformance.Recorder
		rec.Watch(func() { Suite{BriefReasons: true}.check(checkNamed(t, "ForceUnlock/EndsTheHold"), &rec, store) })
		if (len(rec.Complaints) > 0) != complaints {
			t.Errorf("got %q, want complaints: %v", rec.Complaints, complaints)
		}
	}
}
