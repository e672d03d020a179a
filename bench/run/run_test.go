package run

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/stores"
	"github.com/holdfast-go/holdfast/bench/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestForeignWork(t *testing.T) {
	servers := map[peer.Store]stores.Work{peer.Redis: {CPU: time.Second / 2}, peer.Etcd: {Requests: 7, CPU: time.Second / 2}}
	d := difference{elapsed: 2 * time.Second, others: 3 * time.Second, servers: servers, known: true}
	s := report.Sample{Result: work.Result{CPU: time.Second}}
	d.into(&s, peer.Etcd)
	if s.Foreign != 0.5 || s.ServerCPU != time.Second/2 || s.Commands != 7 {
		t.Fatalf("got %v foreign cores, %v of the server and %d requests, want 0.5, 500ms and 7", s.Foreign, s.ServerCPU, s.Commands)
	}
	d.known = false
	s = report.Sample{}
	d.into(&s, peer.Etcd)
	if s.Foreign != 0 || s.Disturbed() {
		t.Fatal("what is not known disturbs nobody")
	}
}

func TestMerge(t *testing.T) {
	var s report.Sample
	merge(&s, work.Result{Pairs: 3, Turns: 2, Each: []int64{1, 2}, Elapsed: 5, Longest: 9, CPU: 1, Allocs: 4, Starts: 1, Runs: 2, Reads: 3, Writes: 4, Kept: 2, Goroutines: 0.5, LeastLeft: 0.7, Violations: 1})
	merge(&s, work.Result{Pairs: 4, Turns: 1, Each: []int64{4}, Elapsed: 4, Longest: 8, CPU: 2, Allocs: 5, Starts: 10, Runs: 20, Reads: 30, Writes: 40, Kept: 3, Goroutines: 0.25, LeastLeft: 0.6, Violations: 2})
	if s.Pairs != 7 || s.Turns != 3 || len(s.Each) != 3 || len(s.Shares) != 2 || s.Elapsed != 5 || s.Longest != 9 || s.CPU != 3 ||
		s.Allocs != 9 || s.Starts != 11 || s.Runs != 22 || s.Reads != 33 || s.Writes != 44 || s.Kept != 5 || s.Goroutines != 0.5 || s.LeastLeft != 0.6 || s.Violations != 3 {
		t.Fatalf("got %+v", s)
	}
}

func TestSets(t *testing.T) {
	brief, full := Short(), Full()
	if len(brief.Works) >= len(full.Works) || len(brief.Peers) >= len(full.Peers) {
		t.Fatalf("the short set is not shorter: %d and %d works", len(brief.Works), len(full.Works))
	}
	var took time.Duration
	for _, w := range brief.Works {
		for _, p := range brief.Peers {
			if w.Suits(p) {
				took += time.Duration(brief.Repeats) * (brief.Warm + time.Duration(w.Sample) + 300*time.Millisecond)
			}
		}
	}
	t.Logf("the short set takes about %v", took)
	if took > 8*time.Minute { // which leaves time for disturbed samples
		t.Fatalf("the short set takes about %v, want less than 8 minutes", took)
	}
}

// The peers of the curves are Holdfast with both clients and some others, and can do most works.
func TestScale(t *testing.T) {
	set := Scale()
	clients := map[string]bool{}
	others := 0
	for _, p := range set.Peers {
		if p.Role == peer.Ours {
			clients[p.Client] = true
		} else {
			others++
		}
		works := 0
		for _, w := range set.Works {
			if w.Suits(p) {
				works++
			}
		}
		if works < len(set.Works)/2 {
			t.Errorf("%s can do %d of %d works", p.Name, works, len(set.Works))
		}
	}
	if len(clients) != 2 || others < 3 {
		t.Errorf("got Holdfast with the clients %v and %d others", clients, others)
	}
}

// Each store has its own peers, one of them Holdfast's, and is measured in some three minutes.
func TestStoreSets(t *testing.T) {
	for _, store := range []peer.Store{peer.Etcd, peer.ZooKeeper, peer.PostgreSQL, peer.MySQL} {
		set := Stores(store)
		var ours int
		var took time.Duration
		for _, p := range set.Peers {
			if p.Role == peer.Ours {
				ours++
			}
			for _, w := range set.Works {
				if w.Suits(p) {
					took += time.Duration(set.Repeats) * (set.Warm + time.Duration(w.Sample) + 300*time.Millisecond)
				}
			}
		}
		if ours == 0 || ours == len(set.Peers) || took > 210*time.Second {
			t.Errorf("%s: got %d of ours among %d peers, and %v, want some, others, and at most 3.5 minutes", store, ours, len(set.Peers), took)
		}
	}
}
