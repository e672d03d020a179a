package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/run"
	"github.com/holdfast-go/holdfast/bench/stores"
	"github.com/holdfast-go/holdfast/bench/work"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
)

// TestMain makes the test program a measuring process and a proxy, too.
func TestMain(m *testing.M) {
	if ran, err := other(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	} else if ran {
		return
	}
	goleak.VerifyTestMain(m)
}

// start starts a Runner of stores. Redis has etcd beside it if that is on PATH.
func start(t *testing.T, store peer.Store, settings stores.Settings) *run.Runner {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := run.Options{Dir: t.TempDir(), Child: []string{self, child}, Network: []string{self, network}, Stores: []peer.Store{store}, Settings: settings, Log: t.Output()}
	if store == peer.Redis && settings.Etcd != "" {
		o.Stores = append(o.Stores, peer.Etcd)
	}
	r, err := run.Start(o)
	if errors.Is(err, redistest.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// smoke is a work made small enough for a test.
func smoke(w work.Work) work.Work {
	w.Goroutines = min(w.Goroutines, 8)
	w.Processes = min(w.Processes, 2)
	w.Names = min(w.Names, 50)
	w.Hold = min(w.Hold, peer.Duration(5*time.Millisecond))
	return w
}

// Every peer does work that it is measured with, on a real server, and excludes;
// Holdfast does every kind.
func TestEveryPeer(t *testing.T) {
	etcd, _ := exec.LookPath("etcd")
	r := start(t, peer.Redis, stores.Settings{Etcd: etcd})
	for _, p := range peer.Specs() {
		t.Run(p.Name, func(t *testing.T) {
			if p.Client == "etcd" && etcd == "" {
				t.Skip("etcd is not on PATH")
			}
			if p.Program != nil && stores.Redisson() == "" {
				t.Skip("set HOLDFAST_INTEROP to the folder where .ci/interop-java has built Redisson")
			}
			works := []string{"own-8", "net-0.3ms-8", "one-16", "fair-16", "hear"}
			if p.Role == peer.Ours {
				works = append(works, "hold-4x25", "keep-10000", "all-10", "shared-64", "semaphore-100")
			}
			if work.ScalePeer(p) {
				works = append(works, "scale-names-16", "scale-bytes-1000")
			}
			for _, name := range works {
				if w := smoke(find(t, name)); w.Suits(p) {
					t.Run(name, func(t *testing.T) { take(t, r, w, p) })
				}
			}
		})
	}
}

// So do those of the other stores. Run by hand, where the servers are: .ci/etcd and
// .ci/zookeeper get two of them.
func TestEveryStore(t *testing.T) {
	await.NotShort(t, "needs the other stores")
	settings := stores.Settings{Etcd: os.Getenv(etcdtest.ProgramEnv), Jars: os.Getenv(zktest.JarsEnv)}
	for store, there := range map[peer.Store]bool{
		peer.Etcd: settings.Etcd != "", peer.ZooKeeper: settings.Jars != "", peer.PostgreSQL: true, peer.MySQL: true,
	} {
		t.Run(string(store), func(t *testing.T) {
			if !there {
				t.Skip("set HOLDFAST_ETCD and HOLDFAST_ZOOKEEPER to what .ci/etcd and .ci/zookeeper print")
			}
			r := start(t, store, settings)
			for _, p := range run.Stores(store).Peers {
				for _, w := range work.Stores() {
					if w = smoke(w); w.Suits(p) {
						t.Run(p.Name+"/"+w.Name, func(t *testing.T) { take(t, r, w, p) })
					}
				}
			}
		})
	}
}

func find(t *testing.T, name string) work.Work {
	t.Helper()
	list := append(work.List(), work.Scale()...)
	i := slices.IndexFunc(list, func(w work.Work) bool { return w.Name == name })
	if i < 0 {
		t.Fatalf("there is no work %s", name)
	}
	return list[i]
}

func take(t *testing.T, r *run.Runner, w work.Work, p peer.Spec) {
	var s report.Sample
	size := run.Size{Warm: 50 * time.Millisecond, Sample: 200 * time.Millisecond}
	for s.Pairs+int64(s.Kept) == 0 && size.Sample < 10*time.Second { // a busy machine needs longer
		var err error
		if s, err = r.Sample(t.Context(), w, p, size); err != nil {
			t.Fatal(err)
		}
		size.Sample *= 3
	}
	if s.Violations != 0 {
		t.Errorf("got %d holders too many, want none", s.Violations)
	}
	if w.Kind == work.Keep {
		if s.Kept != w.Names {
			t.Errorf("got %d names kept, want %d", s.Kept, w.Names)
		}
		return
	}
	if s.Pairs == 0 || len(s.Each) != w.Processes*w.Goroutines || len(s.Shares) != w.Processes {
		t.Errorf("got %d pairs of %d goroutines in %d processes, want some of %d in %d",
			s.Pairs, len(s.Each), len(s.Shares), w.Processes*w.Goroutines, w.Processes)
	}
	handsOn := p.Role == peer.Ours && w.Kind == work.One
	if s.Commands == 0 || s.Commands < s.Pairs && !handsOn {
		t.Errorf("got %d commands for %d pairs, want at least one each", s.Commands, s.Pairs)
	}
	if w.Hold > 0 && s.Pairs > 1 && s.Dead.Count() == 0 {
		t.Error("no dead time was measured")
	}
	if p99 := s.Latency.At(0.99); w.Hold == 0 && s.Pairs > 1000 && (p99 <= 0 || p99 > s.Elapsed) {
		t.Errorf("got %v as the 99th percentile of %d pairs", p99, s.Latency.Count())
	}
}

// The samples of a run give its tables again, without a server.
func TestSamplesGiveTheSameTables(t *testing.T) {
	start(t, peer.Redis, stores.Settings{}).Close() // or skip
	path := filepath.Join(t.TempDir(), "samples.txt")
	var tables, again strings.Builder
	args := []string{"-work=own-8", "-peer=holdfast-rueidis,raw-rueidis", "-repeats=2", "-retries=0", "-etcd=none", "-samples=" + path}
	if err := bench(t.Context(), args, &tables, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| holdfast-rueidis | ", "÷ raw", "p99-sec"} {
		if !strings.Contains(tables.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &tables)
		}
	}
	if err := bench(t.Context(), []string{"-tables=" + path}, &again, t.Output()); err != nil || again.String() != tables.String() {
		t.Errorf("got %v and\n%s\nwant\n%s", err, &again, &tables)
	}
	if err := bench(t.Context(), []string{"-tables=" + path + ".none"}, &again, t.Output()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v of a file that is not there", err)
	}
}

func TestPlan(t *testing.T) {
	for _, test := range []struct {
		settings settings
		works    string
		peers    int
		bad      bool
	}{
		{settings{set: "short", works: "own-1,all-2", peers: "holdfast-r", retries: -1}, "own-1 all-2", 1, false},
		{settings{set: "full", works: "keep-1", peers: "raw-rueidis"}, "keep-10000 keep-100000", 1, false},
		{settings{set: "stores", works: "keep", peers: "pg_", retries: -1}, "keep-1000", 1, false},
		{settings{set: "long"}, "", 0, true},
		{settings{set: "short", works: "nothing"}, "", 0, true},
	} {
		set, err := test.settings.plan(peer.PostgreSQL)
		if (err != nil) != test.bad {
			t.Errorf("%+v: got error %v", test.settings, err)
		}
		if test.bad {
			continue
		}
		var names []string
		for _, w := range set.Works {
			names = append(names, w.Name)
		}
		if got := strings.Join(names, " "); got != test.works || len(set.Peers) != test.peers {
			t.Errorf("%+v: got works %q and %d peers, want %q and %d", test.settings, got, len(set.Peers), test.works, test.peers)
		}
	}
}

func TestFailuresAreOurs(t *testing.T) {
	cell := func(p peer.Role, left string, violations int64) report.Cell {
		sample := report.Sample{Result: work.Result{Violations: violations}}
		return report.Cell{Peer: peer.Spec{Role: p}, Left: left, Samples: []report.Sample{{}, sample}}
	}
	for _, test := range []struct {
		cell  report.Cell
		fails bool
	}{
		{cell(peer.Ours, "", 0), false},
		{cell(peer.Ours, "it broke", 0), true},
		{cell(peer.Ours, "", 1), true},
		{cell(peer.Other, "it broke", 1), false},
	} {
		if err := failures([]report.Cell{test.cell}); (err != nil) != test.fails {
			t.Errorf("%+v: got %v", test.cell, err)
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	for args, want := range map[string]string{"-nonsense": "not defined: -nonsense", "surplus": `unexpected argument "surplus"`, "-repeats=x": `invalid value "x" for flag -repeats`} {
		var out strings.Builder
		if err := bench(context.Background(), []string{args}, &out, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", args, err, want)
		}
	}
}
