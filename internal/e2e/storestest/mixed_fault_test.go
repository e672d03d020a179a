package storestest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// outage is what happens to one member.
type outage struct {
	name  string
	begin func(*part) error
	end   func(*part) error
}

func outages() []outage {
	return []outage{
		{"killed", func(p *part) error { p.Kill(); return nil }, func(p *part) error { return p.Restart() }},
		{"paused", func(p *part) error { return p.Pause() }, func(p *part) error { return p.Resume() }},
	}
}

// faults holds a lock while one member after the other is killed or paused: locking,
// renewal and release go on. Then all members but one are killed.
func (m *mixed) faults() {
	m.Helper()
	r := newExtended()
	ours, theirs := m.locker(r.observe), m.locker(nil)
	long := must.Lock(m, ours, "long")
	for _, p := range m.members {
		for _, o := range outages() {
			m.without(p, o, r, ours, theirs)
		}
	}
	m.everywhere(r, "long")
	must.Unlock(m, long)
	m.nothingLeft("long")
	m.withoutTwo(r, ours, theirs)
}

// without makes an outage of p. r has the renewals of ours, which holds the lock "long".
func (m *mixed) without(p *part, o outage, r *extended, ours, theirs *holdfast.Locker) {
	m.Helper()
	began := time.Now()
	before, during := fmt.Sprintf("before-%s-%s", p.name, o.name), fmt.Sprintf("during-%s-%s", p.name, o.name)
	one := must.Lock(m, ours, before)
	m.everywhere(r, "long", before)
	m.must(o.begin(p))
	two := must.Lock(m, ours, during)
	for _, name := range []string{"long", before, during} {
		if _, err := theirs.TryLock(m.Context(), name); !errors.Is(err, holdfast.ErrBusy) {
			m.Errorf("%s %s: TryLock of what another holds: got %v, want ErrBusy", p.name, o.name, err)
		}
	}
	m.renewed(r, "long", before, during)
	must.Unlock(m, one)
	must.Unlock(m, must.Lock(m, theirs, before))
	m.must(o.end(p))
	must.Unlock(m, two)
	m.nothingLeft(before)
	m.nothingLeft(during)
	m.Logf("%s %s: %v", p.name, o.name, time.Since(began).Round(10*time.Millisecond))
}

// everywhere waits until all members have the locks, and each of their votes counts: that
// of a member which has got a lock again counts after a renewal without it.
func (m *mixed) everywhere(r *extended, names ...string) {
	m.Helper()
	for _, name := range names {
		for _, p := range m.members {
			await.Until(m, 3*mixedTTL, p.name+" has "+name, func() bool {
				left, err := p.left(name)
				return err == nil && len(left) > 0
			})
		}
	}
	m.renewed(r, names...)
}

// renewed waits for a renewal of each lock that is sent from now on.
func (m *mixed) renewed(r *extended, names ...string) {
	m.Helper()
	now := time.Now()
	for _, name := range names {
		await.Until(m, 3*mixedTTL, "a renewal of "+name, func() bool { return r.last(name).After(now) })
	}
}

func (m *mixed) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// withoutTwo kills all members but one. No lock can be taken, and the holder is notified
// before its lease ends. When they are back, nothing is left of the lost lock.
func (m *mixed) withoutTwo(r *extended, ours, theirs *holdfast.Locker) {
	m.Helper()
	watch := await.NewWatch(m)
	lock := must.Lock(m, ours, "lost")
	notified := make(chan time.Time, 1)
	context.AfterFunc(lock.Context(m.Context()), func() { notified <- time.Now() })
	m.everywhere(r, "lost")
	m.members[0].Kill()
	m.members[2].Kill()
	m.noMajority(theirs)
	at, late := <-notified, watch.Late()
	if after := at.Sub(r.last("lost")); after >= mixedTTL+late {
		m.Errorf("notified %v after the last renewal was sent, want less than %v; the machine stood still for %v", after, mixedTTL, late)
	}
	if err := lock.Err(); !errors.Is(err, holdfast.ErrLost) {
		m.Errorf("got %v, want ErrLost", err)
	}
	m.must(m.members[0].Restart())
	m.must(m.members[2].Restart())
	m.nothingLeft("lost")
	must.Unlock(m, must.Lock(m, theirs, "lost"))
}

// noMajority wants an error that names the members that are down.
func (m *mixed) noMajority(l *holdfast.Locker) {
	m.Helper()
	_, err := l.Lock(await.Context(m, time.Second), "other")
	if err == nil || errors.Is(err, holdfast.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		m.Errorf("Lock without a majority: got error %v, want that of the context", err)
		return
	}
	for _, want := range []string{"no majority of 3 nodes", "node 1 of 3", "node 3 of 3"} {
		if !strings.Contains(err.Error(), want) {
			m.Errorf("Lock without a majority: got error %q, want one with %q", err, want)
		}
	}
}
