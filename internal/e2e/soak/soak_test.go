package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/history"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVar) != "" { // a worker is this program, started again
		if err := work(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// A short soak with a fixed seed on every deployment: `make soak` runs longer.
// What explains a violation goes to the folder that SOAK_OUT names, or to a
// temporary one that the test names.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("a soak takes 20 s for each deployment; run without -short")
	}
	for _, name := range deployments() {
		t.Run(name, func(t *testing.T) {
			if runtime.NumCPU() >= 8 {
				t.Parallel()
			}
			var log bytes.Buffer
			s := soak{deployment: name, seed: 4, duration: 18 * time.Second, round: 9 * time.Second, out: os.Getenv("SOAK_OUT"), log: &log}
			total, err := s.run(t.Context())
			if errors.Is(err, redistest.ErrMissing) && os.Getenv("CI") == "" {
				t.Skip(err)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, log.String())
			}
			faults := 0
			for _, n := range total.Faults {
				faults += n
			}
			if total.bad() > 0 {
				t.Errorf("%d violations, see %q, leaks %q:\n%s", total.bad(), total.Folders, total.Leaks, log.String())
			}
			if faults < 15 || total.Grants < 500 || total.Modelled < 100 && name != quorumOfFive || total.Waits < 10 {
				t.Errorf("%d faults, %d grants, %d operations for the model, %d waits: too little to judge", faults, total.Grants, total.Modelled, total.Waits)
			}
			var table bytes.Buffer
			report(&table, []*totals{total}, false, json.NewEncoder(&table))
			t.Log(table.String())
		})
	}
}

// What is drawn depends on the seed alone.
func TestSameSeedSameFaults(t *testing.T) {
	draws := func(seed uint64) (all []string) {
		n := &nemesis{arena: &arena{name: "cluster"}}
		for lane := range 4 {
			r := randFor(seed, lane)
			for range 50 {
				s := n.draw(r, n.lanes()[lane])
				all = append(all, fmt.Sprint(s.fault.name, s.aimed, s.place, s.length, s.pick))
			}
		}
		return all
	}
	a, b, c := draws(1), draws(1), draws(2)
	if strings.Join(a, "\n") != strings.Join(b, "\n") {
		t.Error("the same seed gave other faults")
	}
	if strings.Join(a, "\n") == strings.Join(c, "\n") {
		t.Error("two seeds gave the same faults")
	}
}

// Two holders are explained by a fault that loses writes, and only around it.
func TestWhatExplainsTwoHolders(t *testing.T) {
	const ms, lease = int64(time.Millisecond), int64(time.Second)
	first := history.Operation{Name: "mutex:a", Lease: lease}
	found := func(called, from, to int64) *history.Violation {
		o := first
		o.Called = called * ms
		return &history.Violation{Kind: history.Overlap, Name: o.Name, A: &o, At: from * ms, To: to * ms}
	}
	windows := func(from, to int64, loses bool) []window {
		return []window{{from: from * ms, to: to * ms, process: -1, loses: loses}}
	}
	elsewhere := windows(1500, 2000, true)
	elsewhere[0].name = "mutex:b"
	otherSlot := windows(1500, 2000, true)
	otherSlot[0].slots = func(slot int) bool { return slot != redistest.Slot("mutex:a") }
	for name, test := range map[string]struct {
		windows []window
		found   *history.Violation
		want    bool
	}{
		"during the fault":                  {windows(1500, 2000, true), found(1000, 1600, 1700), true},
		"soon after it":                     {windows(1500, 2000, true), found(1000, 2500, 2900), true},
		"asked during the fault":            {windows(1500, 2000, true), found(1700, 2500, 2900), true},
		"nothing was broken":                {nil, found(1000, 1600, 1700), false},
		"a fault that loses nothing":        {windows(1500, 2000, false), found(1000, 1600, 1700), false},
		"before the fault":                  {windows(1500, 2000, true), found(1000, 1400, 1600), false},
		"for longer than a lease after it":  {windows(1500, 2000, true), found(1000, 1600, 3300), false},
		"the first asked after it":          {windows(1500, 2000, true), found(2100, 2200, 2300), false},
		"a lock of another name was lost":   {elsewhere, found(1000, 1600, 1700), false},
		"slots of another server were lost": {otherSlot, found(1000, 1600, 1700), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := round{windows: test.windows}
			if got := r.explains(test.found); got != test.want {
				t.Errorf("explained: got %v, want %v", got, test.want)
			}
		})
	}
}
