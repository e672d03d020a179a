package run

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	const info = "# CPU\r\nused_cpu_sys:1.500000\r\nused_cpu_user:2.250000\r\nused_cpu_sys_children:9.0\r\n" +
		"# Commandstats\r\ncmdstat_evalsha:calls=20,usec=300,usec_per_call=15.00\r\ncmdstat_eval:calls=1,usec=3\r\n" +
		"cmdstat_set:calls=10,usec=3\r\ncmdstat_client|id:calls=2,usec=1\r\ncmdstat_info:calls=50,usec=1\r\ncmdstat_flushall:calls=7,usec=1\r\n"
	var l look
	if err := l.parse(info); err != nil {
		t.Fatal(err)
	}
	if l.commands != 33 || l.calls != 21 || l.redisCPU != 3750*time.Millisecond {
		t.Fatalf("got %d commands, %d calls, %v, want 33, 21, 3.75s", l.commands, l.calls, l.redisCPU)
	}
	if err := l.parse("cmdstat_set:calls=many\r\n"); err == nil {
		t.Fatal("got no error for a number that is none")
	}
}

func TestForeignWork(t *testing.T) {
	d := difference{elapsed: 2 * time.Second, others: 3 * time.Second, redisCPU: time.Second, known: true}
	s := report.Sample{Result: work.Result{CPU: time.Second}}
	d.into(&s, false)
	if s.Foreign != 0.5 || s.ServerCPU != time.Second {
		t.Fatalf("got %v foreign cores and %v of the server, want 0.5 and 1s", s.Foreign, s.ServerCPU)
	}
	d.known = false
	s = report.Sample{}
	d.into(&s, false)
	if s.Foreign != 0 || s.Disturbed() {
		t.Fatal("what is not known disturbs nobody")
	}
}

func TestMerge(t *testing.T) {
	var s report.Sample
	merge(&s, work.Result{Pairs: 3, Each: []int64{1, 2}, Elapsed: 5, Longest: 9, CPU: 1, Allocs: 4, Kept: 2, Goroutines: 0.5, LeastLeft: 0.7, Violations: 1})
	merge(&s, work.Result{Pairs: 4, Each: []int64{4}, Elapsed: 4, Longest: 8, CPU: 2, Allocs: 5, Kept: 3, Goroutines: 0.25, LeastLeft: 0.6, Violations: 2})
	if s.Pairs != 7 || len(s.Each) != 3 || len(s.Shares) != 2 || s.Elapsed != 5 || s.Longest != 9 || s.CPU != 3 ||
		s.Allocs != 9 || s.Kept != 5 || s.Goroutines != 0.5 || s.LeastLeft != 0.6 || s.Violations != 3 {
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
