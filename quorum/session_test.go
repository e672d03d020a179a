package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// session is a member that keeps the claims of a client together, and whose session other
// locks of the client keep alive: no claim ends by itself.
type session struct{ *member }

func (m session) Info() driver.Info {
	info := m.member.Info()
	info.SessionTTL, info.SessionOption, info.MaxTTL = ttl, "sessionhold.Options.TTL", ttl
	return info
}

func (m session) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	asked := c.TTL
	c.TTL = time.Hour
	out, err := m.member.Try(ctx, c)
	out.ValidFor = min(out.ValidFor, asked)
	return out, err
}

// newSessions returns a cluster of three members, of which the last ones have sessions.
func newSessions(t *testing.T, sessions int) *cluster {
	t.Helper()
	c := &cluster{T: t}
	var backends []driver.Backend
	for i := range 3 {
		m := newMember()
		c.members = append(c.members, m)
		if i < 3-sessions {
			backends = append(backends, m)
		} else {
			backends = append(backends, session{m})
		}
	}
	c.Backend = must(t, backends, nil)
	return c
}

func TestSessionsOfMembers(t *testing.T) {
	b := newSessions(t, 1)
	if info := b.Info(); info.SessionTTL != ttl || info.SessionOption != "sessionhold.Options.TTL" || info.MaxTTL != ttl {
		t.Errorf("got %+v, want the session of the member", info)
	}
	with := func(info driver.Info) driver.Backend {
		info.Caps.ExpiresAlone = true
		return bounds{memhold.New(), info}
	}
	one := with(driver.Info{Name: "one", SessionTTL: ttl, SessionOption: "one.TTL"})
	two := with(driver.Info{Name: "two", SessionTTL: 2 * ttl, SessionOption: "two.TTL"})
	for want, test := range map[string]struct {
		members []driver.Backend
		opts    *Options
	}{
		"sessions of 30s (one.TTL) and of 1m0s (two.TTL)":          {[]driver.Backend{one, two, memhold.New()}, nil},
		"sessions of 30s (one.TTL) are longer than MaxTTL, 10s":    {[]driver.Backend{one, with(driver.Info{MaxTTL: 10 * time.Second}), memhold.New()}, nil},
		"sessions of 30s (one.TTL) are longer than MaxTTL, 5s":     {[]driver.Backend{one, memhold.New(), memhold.New()}, &Options{MaxTTL: 5 * time.Second}},
		"sessions of 30s (one.TTL) are shorter than a lease of 1m": {[]driver.Backend{one, with(driver.Info{MinTTL: time.Minute}), memhold.New()}, nil},
	} {
		if _, err := New(test.members, test.opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

// What is lost, because a majority does not answer, is released where a session would keep
// it. So is a lock with a fixed end.
func TestASessionKeepsNothing(t *testing.T) {
	for name, end := range map[string]func(*cluster, *holdfast.Locker){
		"lost": func(c *cluster, l *holdfast.Locker) {
			lock := c.lock(l)
			synctest.Wait()
			c.members[0].change(hole)
			c.members[1].change(hole)
			<-lock.Context(c.Context()).Done()
			if err := lock.Err(); !errors.Is(err, holdfast.ErrLost) {
				c.Errorf("got %v, want ErrLost", err)
			}
			time.Sleep(ttl)
		},
		"Lease": func(c *cluster, l *holdfast.Locker) {
			lock := c.lock(l, holdfast.Lease(time.Second))
			<-lock.Context(c.Context()).Done()
			time.Sleep(time.Second)
		},
	} {
		for sessions := 1; sessions <= 2; sessions++ {
			t.Run(fmt.Sprint(name, " ", sessions), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newSessions(t, sessions)
					l := holdfast.New(c.Backend, nil)
					end(c, l)
					for _, m := range c.members {
						m.change(healed)
					}
					c.drain(l)
					c.wantHolders(0)
				})
			})
		}
	}
}

func (c *cluster) lock(l *holdfast.Locker, opts ...holdfast.Option) *holdfast.Lock {
	c.Helper()
	lock, err := l.Lock(c.Context(), "job", opts...)
	if err != nil {
		c.Fatal(err)
	}
	return lock
}

// A claim that was not renewed for long can be released: the session has kept it.
func TestALateReleaseReachesTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSessions(t, 1)
		a := c.claim()
		c.mustGrant(c.Backend, a)
		synctest.Wait()
		time.Sleep(2 * ttl)
		for range 3 { // what has lapsed is dropped
			other := c.claim()
			other.Name = "other"
			c.mustGrant(c.Backend, other)
			c.mustRelease(c.Backend, other)
		}
		_ = c.Release(t.Context(), a) // gone, from a majority
		c.drain(c.Backend)
		c.wantHolders(0)
	})
}

// busy is a member with work in the background.
type busy struct {
	*memhold.Backend
	err     error
	drained bool
}

func (b *busy) Drain(context.Context) error {
	b.drained = true
	return b.err
}

func TestDrainWaitsForMembers(t *testing.T) {
	first, failed := &busy{Backend: memhold.New()}, &busy{Backend: memhold.New(), err: context.DeadlineExceeded}
	b, err := Of(first, memhold.New(), failed)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Drain(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !first.drained || !failed.drained {
		t.Errorf("got error %v, members were drained: %v, %v, want the error of the last, and both", err, first.drained, failed.drained)
	}
}
