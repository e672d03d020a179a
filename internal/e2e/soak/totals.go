package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/judge"
)

// totals is what a soak of one deployment brought.
type totals struct {
	Deployment string        `json:"deployment"`
	Seed       uint64        `json:"seed"`
	Duration   time.Duration `json:"duration_ns"`
	Rounds     int           `json:"rounds"`

	Operations int            `json:"operations"`
	Grants     int            `json:"grants"`
	PassedOn   int            `json:"passed_on"` // grants that a goroutine had from another of its process
	Modelled   int            `json:"modelled"`  // operations that the model judged
	Unknown    int            `json:"unknown"`   // of these without an answer, nothing being broken
	Outage     int            `json:"outage"`    // without one beside a fault
	Undecided  int            `json:"undecided"` // names that took the model too long
	Faults     map[string]int `json:"faults"`
	FailOvers  int            `json:"fail_overs"`
	Covered    int            `json:"covered"` // operations that the model did not judge: the store may have lost their locks

	ServerFaults int `json:"server_faults"`

	Violations map[judge.Kind]int `json:"violations"`
	Other      []string           `json:"other"`            // violations that are not about one lock: leaks, leftovers
	Explained  int                `json:"explained_double"` // two holders after a fault that loses writes
	Stale      int                `json:"stale_writes"`     // explained writes of a holder who did not hold any more
	Refused    int                `json:"fenced_off"`       // accesses that the fenced register refused

	LongestWait time.Duration `json:"longest_wait_ns"` // of a free lock, nothing being broken
	LongestCalm time.Duration `json:"longest_calm_ns"` // of a free Mutex, while no fault had an effect on anybody
	Calm        int           `json:"calm"`            // so many of these were measured
	Waits       int           `json:"waits"`           // so many were measured
	Excused     int           `json:"waits_excused"`   // and so many not
	LongestRest time.Duration `json:"longest_rest_ns"` // until all who waited were served, faults being over

	Losses   int             `json:"losses"`
	Late     time.Duration   `json:"latest_notice_ns"` // after the deadline, at most
	Tardy    int             `json:"late_notices"`     // notified after the next grant
	TooLate  int             `json:"losses_explained"` // likewise, by a fault that loses writes
	early    []time.Duration // before the next grant
	EarlyMin time.Duration   `json:"early_min_ns"`
	EarlyMed time.Duration   `json:"early_median_ns"`

	Goroutines [2]int64 `json:"goroutines"` // of all workers at rest, first and last
	Heap       [2]int64 `json:"heap"`
	Sockets    [2]int64 `json:"sockets"`
	Leaks      []string `json:"leaks"`
	Folders    []string `json:"folders"` // what explains violations
}

func newTotals(deployment string, seed uint64) *totals {
	return &totals{Deployment: deployment, Seed: seed, Faults: map[string]int{}, Violations: map[judge.Kind]int{}}
}

// add counts what a round brought.
func (t *totals) add(r *round, v verdict) {
	t.Rounds++
	t.Operations += len(r.history.Operations)
	for _, o := range r.history.Operations {
		if o.Granted != judge.Never {
			t.Grants++
		}
	}
	t.PassedOn += r.passedOn()
	t.Modelled += v.judged.Operations
	t.Unknown += v.judged.Unknown
	t.Outage += v.judged.Outage
	t.Undecided += v.judged.Undecided
	t.Covered += v.covered
	for _, found := range v.violations {
		t.Violations[found.Kind]++
	}
	t.Explained += v.explained
	t.Stale += v.stale
	t.Refused += v.refused
	t.LongestWait = max(t.LongestWait, v.longest)
	t.Calm += v.calm
	t.LongestCalm = max(t.LongestCalm, v.longestCalm)
	t.Waits += v.quiet
	t.Excused += v.excused
	for _, l := range v.losses {
		t.Losses++
		t.Late = max(t.Late, l.Late)
	}
	t.TooLate += v.tooLate
	t.Tardy += v.late
	if len(t.early) < 1_000_000 {
		t.early = append(t.early, v.early...)
	}
}

// bad says how many violations there were.
func (t *totals) bad() int {
	n := len(t.Other) + len(t.Leaks) + len(t.doubts())
	for _, k := range t.Violations {
		n += k
	}
	return n
}

// grave counts the violations that no busy machine explains: those of holders, tokens and
// writes, and leaks.
func (t *totals) grave() int {
	n := len(t.Leaks)
	for _, k := range []judge.Kind{judge.Overlap, judge.Token, judge.Order, judge.Update, judge.Disorder} {
		n += t.Violations[k]
	}
	return n
}

// doubts are what makes the sum of all rounds a violation.
func (t *totals) doubts() (all []string) {
	if t.Undecided > max(2, t.Rounds/10) { // on a busy machine the model may run out of time
		all = append(all, fmt.Sprintf("%d names undecided", t.Undecided))
	}
	if 100*t.Unknown > unknownMost*t.Modelled {
		all = append(all, fmt.Sprintf("%d of %d answers unknown to the model", t.Unknown, t.Modelled))
	}
	if t.Tardy > max(1, t.Losses/500) {
		all = append(all, fmt.Sprintf("%d of %d losses notified after the next grant", t.Tardy, t.Losses))
	}
	return all
}

// unknownMost is the largest share of answers, in percent, that may be unknown to the model
// although nothing was broken: more than that would let it accept anything.
const unknownMost = 10

// finish computes what needs all.
func (t *totals) finish() {
	slices.Sort(t.early)
	if n := len(t.early); n > 0 {
		t.EarlyMin, t.EarlyMed = t.early[0], t.early[n/2]
	}
}

// rows are the lines of the summary.
func (t *totals) rows() [][2]string {
	share := func(n int) float64 { return 100 * float64(n) / float64(max(t.Modelled, 1)) }
	faults := 0
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(t.Faults)) {
		faults += t.Faults[k]
		kinds = append(kinds, fmt.Sprintf("%s %d", k, t.Faults[k]))
	}
	var broken []string
	for _, k := range slices.Sorted(maps.Keys(t.Violations)) {
		broken = append(broken, fmt.Sprintf("%s %d", k, t.Violations[k]))
	}
	list := func(n int, parts []string) string {
		if len(parts) == 0 {
			return fmt.Sprint(n)
		}
		return fmt.Sprintf("%d: %s", n, strings.Join(parts, ", "))
	}
	ms := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
	return [][2]string{
		{"deployment", t.Deployment},
		{"seed", fmt.Sprint(t.Seed)},
		{"duration", fmt.Sprintf("%v in %d rounds", t.Duration.Round(time.Second), t.Rounds)},
		{"operations", fmt.Sprint(t.Operations)},
		{"grants", fmt.Sprintf("%d, %d of them passed on in a process", t.Grants, t.PassedOn)},
		{"judged by the model", fmt.Sprintf("%d, %.1f %% unknown beside faults and %.1f %% otherwise, %d names undecided; %d operations covered by lost writes", t.Modelled, share(t.Outage), share(t.Unknown), t.Undecided, t.Covered)},
		{"faults", list(faults, kinds)},
		{"server faults", fmt.Sprint(t.ServerFaults)},
		{"failovers", fmt.Sprint(t.FailOvers)},
		{"violations", list(t.bad(), slices.Concat(broken, t.doubts(), t.Other))},
		{"explained double grants", fmt.Sprintf("%d, and %d stale writes; the fence refused %d", t.Explained, t.Stale, t.Refused)},
		{"longest wait", fmt.Sprintf("%s for a free lock, of %d measured, %d excused; %s for a Mutex after the faults, of %d; %s until all were served after the faults", ms(t.LongestWait), t.Waits, t.Excused, ms(t.LongestCalm), t.Calm, ms(t.LongestRest))},
		{"loss notices", fmt.Sprintf("%d; %d with a next holder, notified at least %s before its grant (median %s); at most %s after the deadline",
			t.Losses, len(t.early), ms(t.EarlyMin), ms(t.EarlyMed), ms(t.Late))},
		{"late notices", fmt.Sprintf("%d after the next grant, and %d explained", t.Tardy, t.TooLate)},
		{"workers at rest", fmt.Sprintf("goroutines %d, then %d; heap %d kB, then %d kB; sockets %d, then %d",
			t.Goroutines[0], t.Goroutines[1], t.Heap[0]>>10, t.Heap[1]>>10, t.Sockets[0], t.Sockets[1])},
		{"leaks", list(len(t.Leaks), t.Leaks)},
	}
}

// report prints the summaries and returns the exit status.
func report(out io.Writer, all []*totals, asJSON bool, lines *json.Encoder) (status int) {
	for _, t := range all {
		_, _ = fmt.Fprintln(out)
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, row := range t.rows() {
			_, _ = fmt.Fprintf(table, "%s\t%s\n", row[0], row[1])
		}
		for _, f := range t.Folders {
			_, _ = fmt.Fprintf(table, "see\t%s\n", f)
		}
		_ = table.Flush()
		if asJSON {
			_ = lines.Encode(t)
		}
		if t.bad() > 0 {
			status = 1
		}
	}
	return status
}
