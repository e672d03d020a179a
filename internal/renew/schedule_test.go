package renew

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

func TestRenewalEachThirdOfTheLease(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		start := time.Now()
		l := k.add("leader")
		time.Sleep(6 * time.Hour)
		l.held(t)
		calls := k.renewals("")
		if got, want := len(calls), int(6*time.Hour/(ttl/3)); got < want || got > want+2 {
			t.Errorf("%d renewals in 6 h, want %d", got, want)
		}
		between(t, "the first renewal came after", calls[0].at.Sub(start), ttl/9-ttl/60, ttl/3)
		for i, c := range calls[1:] {
			between(t, fmt.Sprintf("renewal %d after the one before", i+1), c.at.Sub(calls[i].at), ttl/3-ttl/60, ttl/3)
		}
		k.Remove(l)
		k.forget()
		time.Sleep(time.Hour)
		if n := len(k.renewals("")); n > 0 {
			t.Errorf("%d renewals after the item was removed", n)
		}
	})
}

// The renewals of leases that are added together spread over a period, and still share
// calls.
func TestRenewalsTravelTogetherAndSpread(t *testing.T) {
	inBubble(t, 30*time.Second, func(t *testing.T, k *kit) {
		const n = 5_000
		leases := k.addMany(n)
		time.Sleep(time.Minute)
		k.forget()
		time.Sleep(30 * time.Second)
		claims, calls := 0, k.renewals("")
		for _, c := range calls {
			claims += len(c.names)
			if len(c.names) > 500 {
				t.Errorf("a call carried %d claims, want at most 500", len(c.names))
			}
		}
		if claims < 3*n*9/10 || claims > 3*n*11/10 {
			t.Errorf("%d claims renewed in one lease, want about %d", claims, 3*n)
		}
		if len(calls) > 150 {
			t.Errorf("%d calls, want at most 150", len(calls))
		}
		moments := map[time.Time]int{}
		for _, c := range calls {
			moments[c.at] += len(c.names)
		}
		if len(moments) < 30 {
			t.Errorf("all was renewed at %d moments of a lease, want 30 at least", len(moments))
		}
		for at, renewed := range moments {
			if renewed > n/10 { // 3 of 40 are expected
				t.Errorf("%d of %d were renewed at one moment, %v", renewed, n, at)
			}
		}
		k.removeAll(leases...)
	})
}

// On a store with sessions, each lock may have another rest of the session. Their renewals
// still share calls.
func TestShorterLeasesTravelTogether(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		const n = 1_000
		var leases []*lease
		for i := range n {
			leases = append(leases, k.addFor(fmt.Sprint("lease ", i), ttl-time.Duration(i)*time.Millisecond, false))
		}
		time.Sleep(ttl / 3)
		if calls := len(k.renewals("")); calls > 45 {
			t.Errorf("%d calls for the first renewals of %d leases, want at most 45", calls, n)
		}
		k.removeAll(leases...)
	})
}

// A store may answer that a lease has ended already.
func TestLeaseThatHasEnded(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		k.removeAll(k.addFor("ended", -time.Millisecond, false))
	})
}

// A store may grant less than the TTL.
func TestRenewalFollowsWhatWasGranted(t *testing.T) {
	const granted = 3 * time.Second
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		k.answers(each(func(driver.Claim) driver.Renewal { return driver.Renewal{ValidFor: granted} }))
		l := k.addFor("job", granted, false)
		start := time.Now()
		time.Sleep(time.Minute)
		l.held(t)
		calls := k.renewals("")
		between(t, "the first renewal came after", calls[0].at.Sub(start), granted/4, granted/3)
		for i, c := range calls[1:] {
			between(t, "a renewal after the one before", c.at.Sub(calls[i].at), granted/3-granted/60, granted/3)
		}
		k.Remove(l)
	})
}

// A lease whose end is fixed is renewed as often as others, and not extended.
func TestFixedLeaseIsChecked(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		start := time.Now()
		l := k.addFor("job", time.Minute, true)
		time.Sleep(2 * time.Minute)
		if end, last := l.state(); end != "expired" || last != nil {
			t.Errorf("got %q, %v, want an end without trouble", end, last)
		}
		between(t, "it ended after", l.endedAt().Sub(start), time.Minute-margin, time.Minute-margin)
		calls := k.renewals("")
		between(t, "the first check came after", calls[0].at.Sub(start), CheckAfter, ttl/3)
		for i, c := range calls[1:] {
			between(t, "a check after the one before", c.at.Sub(calls[i].at), ttl/3-ttl/60, ttl/3)
		}
	})
}

// A fixed lease that ends soon costs no call. After Hurry it is renewed at once.
func TestShortFixedLeaseIsNotChecked(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		k.addFor("short", CheckAfter, true)
		time.Sleep(2 * CheckAfter)
		if n := len(k.renewals("")); n > 0 {
			t.Errorf("%d calls for a lease of %v", n, CheckAfter)
		}
		k.Hurry(k.addFor("hurried", CheckAfter, true))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := len(k.renewals("")); n != 1 {
			t.Errorf("%d calls for one that was hurried, want 1", n)
		}
		time.Sleep(CheckAfter)
	})
}

// If a renewal finds that a fixed lease is gone, it ends.
func TestFixedLeaseIsGone(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		k.answers(each(func(driver.Claim) driver.Renewal { return driver.Renewal{Err: driver.ErrGone} }))
		start := time.Now()
		l := k.addFor("job", time.Minute, true)
		time.Sleep(ttl)
		if end, _ := l.state(); end != "gone" {
			t.Fatalf("got %q, want gone", end)
		}
		between(t, "it ended after", l.endedAt().Sub(start), CheckAfter, ttl/3)
	})
}

// Items with a fixed end share no call with others, however many are due at once.
func TestFixedLeasesTravelApart(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		leases := append(k.addMany(10), k.addFor("fixed", time.Minute, true))
		time.Sleep(TickMost)
		k.HurryAll()
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		for _, c := range k.renewals("fixed") {
			if len(c.names) > 1 {
				t.Errorf("a call for %v: the one with a fixed end is not alone", c.names)
			}
		}
		k.removeAll(leases...)
	})
}

func TestHurry(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		l, other := k.add("job"), k.add("other")
		k.Hurry(l)
		synctest.Wait()
		time.Sleep(time.Nanosecond)
		if got := k.renewals(""); len(got) != 1 || len(got[0].names) != 1 || got[0].names[0] != "job" {
			t.Errorf("got %v, want a call for the one that was hurried", got)
		}
		k.removeAll(l, other)
		k.forget()
		k.Hurry(l)
		time.Sleep(ttl)
		if n := len(k.renewals("")); n > 0 {
			t.Error("an item that was removed is renewed")
		}
	})
}

// A Hurry while a call is under way leads to another call after that.
func TestHurryDuringACall(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		k.answers(func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			time.Sleep(100 * time.Millisecond)
			return grant(ctx, cs)
		})
		l := k.add("job")
		k.Hurry(l)
		time.Sleep(50 * time.Millisecond)
		k.Hurry(l)
		time.Sleep(500 * time.Millisecond)
		calls := k.renewals("")
		if len(calls) != 2 {
			t.Fatalf("%d calls, want one more after the one that was under way", len(calls))
		}
		between(t, "the second came after", calls[1].at.Sub(calls[0].at), 100*time.Millisecond, 101*time.Millisecond)
		k.Remove(l)
	})
}

// After a suspension all leases are renewed, also those whose end is fixed. A small step of
// the clock is no suspension.
func TestAllAreRenewedAfterASuspension(t *testing.T) {
	inBubble(t, time.Hour, func(t *testing.T, k *kit) {
		leases := append(k.addMany(1200), k.addFor("fixed", time.Hour, true))
		time.Sleep(TickMost / 2) // between two ticks
		for range 20 {
			k.change(func() { k.ahead += k.Margin / 2 })
			time.Sleep(TickMost)
		}
		if n := len(k.renewals("")); n > 0 {
			t.Fatalf("%d calls: small steps were taken for a suspension", n)
		}
		k.change(func() { k.ahead += k.Margin/2 + 1 })
		start := time.Now()
		time.Sleep(TickMost)
		synctest.Wait()
		calls, claims := k.renewals(""), 0
		for _, c := range calls {
			claims += len(c.names)
			between(t, "noticed after", c.at.Sub(start), 0, TickMost)
		}
		if len(calls) != 4 || claims != len(leases) { // one has a call of its own, see TestFixedLeasesTravelApart
			t.Errorf("got %d calls for %d leases, want one for each 500 of %d", len(calls), claims, len(leases))
		}
		k.removeAll(leases...)
	})
}

func TestTickedWhileThereAreItems(t *testing.T) {
	inBubble(t, time.Hour, func(t *testing.T, k *kit) {
		l := k.addFor("job", 5*time.Hour, true)
		time.Sleep(time.Minute + TickMost/2) // between two ticks
		k.mu.Lock()
		if k.ticks < 59 || k.ticks > 62 {
			t.Errorf("%d ticks in a minute, want one a second", k.ticks)
		}
		k.ticks = 0
		k.mu.Unlock()
		k.Remove(l)
		time.Sleep(time.Minute)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.idles == 0 {
			t.Error("nobody heard that the last item left")
		}
		if k.ticks > 0 {
			t.Errorf("%d ticks without an item", k.ticks)
		}
	})
}

func TestEachAndFind(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		const n = 3*chunk + 1
		k.Each(func(Item) bool { t.Error("there is nothing"); return true })
		leases := k.addMany(n)
		seen := map[Item]int{}
		k.Each(func(i Item) bool { seen[i]++; return true })
		if len(seen) != n {
			t.Errorf("%d items, want %d", len(seen), n)
		}
		for i, times := range seen {
			if times != 1 {
				t.Errorf("%s came %d times", i.(*lease).name, times)
			}
		}
		some := 0
		k.Each(func(Item) bool { some++; return some < chunk+5 })
		if some != chunk+5 {
			t.Errorf("%d items, want it to end after %d", some, chunk+5)
		}
		last := leases[n-1]
		if got := k.Find(func(i Item) bool { return i == last }); got != last {
			t.Errorf("found %v", got)
		}
		if got := k.Find(func(Item) bool { return false }); got != nil {
			t.Errorf("found %v, want nothing", got)
		}
		k.removeAll(leases...)
	})
}

// Other goroutines can add and remove items while Each visits all of them.
func TestEachKeepsNobodyWaiting(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		leases := k.addMany(2 * chunk)
		var wg sync.WaitGroup
		for _, l := range leases {
			wg.Go(func() { k.Remove(l) })
			wg.Go(func() { k.Each(func(i Item) bool { return i.Until() != 0 }) })
		}
		wg.Wait()
	})
}
