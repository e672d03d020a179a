package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

func TestPollsAreCompared(t *testing.T) {
	a := held("a:1", -1)
	shared, twice, first, second := a, a, a, a
	shared.Mode, twice.Holds, first.Token, second.Token = driver.Shared, 2, 1, 2
	kept := held("a:1"+driver.KeptOwner, time.Minute)
	queued, listened, many, others := record(a), record(a), record(a), record(held("b:1", time.Minute))
	queued.Waiting, listened.Listeners = 3, 2
	many.Holders, others.Holders = 40, 40 // of which the store shows one
	for name, test := range map[string]struct {
		before, after admin.Record
		want          string
	}{
		"nothing":            {record(a), record(a), ""},
		"acquired":           {record(), record(a), "acquired a:1"},
		"released":           {record(held("a:1", time.Minute)), record(), "released a:1"},
		"expired":            {record(held("a:1", time.Second)), record(), "expired a:1"},
		"about to expire":    {record(held("a:1", 1300*time.Millisecond)), record(), "expired a:1"},
		"never ends":         {record(a), record(), "released a:1"},
		"passed on":          {record(a), record(held("b:1", time.Minute)), "released a:1, acquired b:1"},
		"to another token":   {record(first), record(second), "released a:1, acquired a:1"},
		"to another mode":    {record(a), record(shared), "released a:1, acquired a:1"},
		"the token is known": {record(a), record(first), ""},
		"one more":           {record(a), record(a, held("b:1", time.Minute)), "acquired b:1"},
		"count":              {record(a), record(twice), "count a:1"},
		"queue":              {record(a), queued, "waiting"},
		"listeners":          {record(a), listened, "listening"},
		"some of many":       {many, others, ""},
		"kept":               {record(a), record(kept), "released a:1"},
		"kept no more":       {record(kept), record(), ""},
		"renewed":            {record(held("a:1", time.Minute)), record(held("a:1", time.Minute)), "renewed a:1"},
		"not renewed":        {record(held("a:1", time.Minute)), record(held("a:1", 59*time.Second)), ""},
		"something else":     {record(a), admin.Record{Name: "job", Kind: admin.KindOther, Holds: []admin.Hold{a}}, "released a:1"},
		"could not be read":  {record(a), admin.Record{Name: "job", Kind: admin.KindUnknown}, ""},
		"free":               {record(), record(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *site) {
				s.scanned.Store(true)
				s.Poll(s.Context(), time.Now(), test.before)
				s.Take(time.Now().Add(Delay))
				time.Sleep(time.Second)
				s.Poll(s.Context(), time.Now(), test.after)
				s.wantsInTheEnd(test.want)
			})
		})
	}
}

// What the first scan finds was there before. It is in the stream at once.
func TestFirstScan(t *testing.T) {
	inBubble(t, func(s *site) {
		s.poll(held("a:1", time.Minute))
		s.wants("held a:1")
		s.poll()
		s.wantsInTheEnd("released a:1")
		s.scanned.Store(true)
		s.poll(held("a:2", time.Minute))
		s.wantsInTheEnd("acquired a:2")
	})
}

// A token and the time of the grant become known later, and may be missing again. A later
// grant, or another token, is another hold.
func TestHoldIsKnownBetterLater(t *testing.T) {
	inBubble(t, func(s *site) {
		s.scanned.Store(true)
		began := time.Now()
		for _, test := range []struct {
			after   time.Duration
			token   uint64
			heldFor time.Duration
			since   time.Duration
			exact   bool
			change  string
		}{
			{0, 0, 0, 0, false, "acquired a:1"},
			{2 * time.Second, 7, 3 * time.Second, -time.Second, true, "renewed a:1"},
			{3 * time.Second, 0, 0, -time.Second, true, "renewed a:1"},
			{4 * time.Second, 7, 5100 * time.Millisecond, -time.Second, true, "renewed a:1"},
			{25 * time.Second, 8, time.Second, 24 * time.Second, true, "released a:1, acquired a:1"},
			{26 * time.Second, 0, 0, 24 * time.Second, true, "renewed a:1"},
			{50 * time.Second, 9, 4 * time.Second, 46 * time.Second, true, "renewed a:1"}, // the token was unknown between
		} {
			time.Sleep(time.Until(began.Add(test.after)))
			h := held("a:1", time.Minute)
			h.Token, h.HeldFor = test.token, test.heldFor
			s.poll(h)
			state, _ := s.Get("job")
			if got := state.Holds[0]; !got.Since.Equal(began.Add(test.since)) || got.Exact != test.exact {
				t.Errorf("after %s: got since %s, exact %v, want %s, %v", test.after, got.Since.Sub(began), got.Exact, test.since, test.exact)
			}
			var list []string
			for _, c := range s.Take(time.Now().Add(Delay)) {
				list = append(list, fmt.Sprint(c.Type, " ", c.Owner))
			}
			if got := strings.Join(list, ", "); got != test.change {
				t.Errorf("after %s: got %s, want %s", test.after, got, test.change)
			}
		}
	})
}

// A waiter waits since the first poll that found it.
func TestWaiters(t *testing.T) {
	inBubble(t, func(s *site) {
		began := time.Now()
		r := record(held("a:1", -1))
		for i, owners := range []string{"b:1", "b:1 c:1", "c:1 b:1"} {
			r.Waiters = nil
			for owner := range strings.FieldsSeq(owners) {
				r.Waiters = append(r.Waiters, admin.Waiter{Owner: owner})
			}
			s.Poll(s.Context(), began.Add(time.Duration(i)*time.Second), r)
		}
		for state := range s.All {
			if b, c := state.Waits["b:1"].Sub(began), state.Waits["c:1"].Sub(began); b != 0 || c != time.Second {
				t.Errorf("got waits since %s and %s, want 0s and 1s", b, c)
			}
		}
	})
}

// A renewal is late if less than a third of the lease was left at the poll before.
func TestLateRenewals(t *testing.T) {
	for left, want := range map[time.Duration]string{9 * time.Second: "renewed-late a:1", 11 * time.Second: "renewed a:1"} {
		inBubble(t, func(s *site) {
			s.poll(held("a:1", 30*time.Second))
			time.Sleep(30*time.Second - left)
			s.poll(held("a:1", left))
			time.Sleep(time.Second)
			s.poll(held("a:1", 30*time.Second))
			s.wantsInTheEnd("held a:1, " + want)
		})
	}
}

// A hold ended before another began that excludes it, and not before one that does not.
func TestEndsAreBeforeTheNextGrant(t *testing.T) {
	for mode, want := range map[driver.Mode]time.Duration{driver.Exclusive: 7 * time.Second, driver.Shared: 10 * time.Second} {
		inBubble(t, func(s *site) {
			a, b := held("a:1", time.Minute), held("b:1", time.Minute)
			a.Mode, b.Mode, b.HeldFor = mode, mode, 3*time.Second
			s.poll(a)
			s.Take(time.Now())
			time.Sleep(10 * time.Second)
			s.poll(b)
			for _, c := range s.Take(time.Now().Add(Delay)) {
				if c.Type == admin.EntryReleased && c.HeldFor != want {
					t.Errorf("%s: got held for %s, want %s", mode, c.HeldFor, want)
				}
			}
		})
	}
}
