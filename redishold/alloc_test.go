package redishold

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

// quickConn is a Conn that answers without a slice or a copy.
type quickConn struct {
	fakeConn
	ones any // the reply of a script for maxBatch locks
}

// Do answers calls for several locks without more than a Result for each call.
func (c *quickConn) Do(ctx context.Context, calls ...Call) []Result {
	if calls[0].Script.Name() != "renew_all" {
		return c.fakeConn.Do(ctx, calls...)
	}
	results := make([]Result, len(calls))
	for i := range calls {
		results[i].Value = c.ones
	}
	return results
}

func (c *quickConn) DoOne(_ context.Context, call *Call) Result {
	if c.ones != nil {
		return Result{Value: c.ones}
	}
	return quick(call)
}

func (c *quickConn) Begin(context.Context, *Call) func() Result { return released }

func (c *quickConn) Listeners(Channel) int { return 1 }

func released() Result { return Result{Value: int64(1)} }

var (
	_ Single          = (*quickConn)(nil)
	_ Beginner        = (*quickConn)(nil)
	_ ListenerCounter = (*quickConn)(nil)
)

func quick(call *Call) Result {
	if strings.HasSuffix(call.Script.Name(), "release") {
		return released()
	}
	return Result{Value: int64(7)}
}

// The path of a free lock must not allocate: for a pair of lock and unlock, this package
// allocates only the name of the tombstone.
func TestAllocations(t *testing.T) {
	for _, c := range []struct {
		name  string
		claim driver.Claim
		most  float64
	}{
		{"exclusive", testClaim("stock:42"), 1},
		{"fair", fairTestClaim("stock:42"), 19},
		{"permit", fuzzClaim(4, "stock:42"), 17},
		{"write", testWriter("stock:42"), 12},
	} {
		b := New(&quickConn{}, nil)
		mustTry(t, b, c.claim)
		for _, release := range []struct {
			name string
			do   func() error
		}{
			{"Release", func() error { return b.Release(t.Context(), c.claim) }},
			{"StartRelease", func() error { _, err := b.StartRelease(t.Context(), c.claim)(); return err }},
		} {
			got := testing.AllocsPerRun(1000, func() {
				if out, err := b.Try(t.Context(), c.claim); err != nil || !out.Granted {
					t.Fatalf("got %+v and error %v", out, err)
				}
				if err := release.do(); err != nil {
					t.Fatal(err)
				}
			})
			if got > c.most && !raceDetector {
				t.Errorf("%s, Try and %s: got %v allocations, want at most %v", c.name, release.name, got, c.most)
			}
		}
	}
}

// A renewal of many costs a few slices for all of them together.
func TestAllocationsOfRenewals(t *testing.T) {
	ones := make([]any, maxBatch)
	for i := range ones {
		ones[i] = int64(1)
	}
	b := New(&quickConn{fakeConn: fakeConn{silent: true}, ones: ones}, nil)
	claims := make([]driver.Claim, 8*maxBatch)
	for i := range claims {
		claims[i] = testClaim(fmt.Sprint("stock:", i))
	}
	got := testing.AllocsPerRun(100, func() {
		if _, err := b.Renew(t.Context(), claims); err != nil {
			t.Fatal(err)
		}
	})
	if got > 20 && !raceDetector {
		t.Errorf("400 claims: got %v allocations, want at most 20", got)
	}
}

// Several locks cost what the path of one lock costs for each of them, and a result for the
// caller of TryAll and of ReleaseAll.
func TestAllocationsOfSeveral(t *testing.T) {
	conn := &quickConn{fakeConn: fakeConn{silent: true}}
	b := New(conn, nil)
	for _, n := range []int{2, 8, maxBatch} {
		claims := several(n)
		try := func() {
			for _, a := range b.TryAll(t.Context(), claims) {
				if a.Err != nil {
					t.Fatal(a.Err)
				}
			}
		}
		try() // with the registration
		conn.ones = int64(1)
		got := testing.AllocsPerRun(100, func() {
			try()
			for _, err := range b.ReleaseAll(t.Context(), claims) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		conn.ones = nil
		if want := float64(n + 2); got > want && !raceDetector {
			t.Errorf("%d claims: got %v allocations, want at most %v", n, got, want)
		}
	}
}

func BenchmarkTryRelease(b *testing.B) {
	backend, c := New(&quickConn{}, nil), testClaim("stock:42")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := backend.Try(b.Context(), c); err != nil {
				b.Fatal(err)
			}
			if err := backend.Release(b.Context(), c); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPlace(b *testing.B) {
	l, names := layout.New("", "", false), make([]string, 512)
	for i := range names {
		names[i] = fmt.Sprint("stock:", i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			l.Keys(names[i%len(names)])
		}
	})
}
