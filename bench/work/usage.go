package work

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is what the process has used so far.
type usage struct {
	cpu           time.Duration
	allocs, bytes uint64
	starts, runs  uint64 // of goroutines
	reads, writes uint64 // system calls; 0 where the system does not count them
	memory        int64  // in use: heap and stacks
	goroutines    int
}

func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // cannot fail for the process itself
	u := usage{
		cpu:    time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		allocs: m.Mallocs, bytes: m.TotalAlloc,
		memory:     int64(m.HeapAlloc + m.StackInuse),
		goroutines: runtime.NumGoroutine(),
	}
	u.starts, u.runs = scheduled()
	u.reads, u.writes = systemCalls()
	return u
}

// runPeriod is how many runs of a goroutine the Go runtime takes one of into its histogram.
const runPeriod = 8

// scheduled returns how many goroutines were started, and about how often one went on.
func scheduled() (starts, runs uint64) {
	s := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}, {Name: "/sched/latencies:seconds"}}
	metrics.Read(s)
	for _, n := range s[1].Value.Float64Histogram().Counts {
		runs += n * runPeriod
	}
	return s[0].Value.Uint64(), runs
}

// systemCalls returns how many system calls of the process have read and have written. Those
// that found nothing to read count, too.
func systemCalls() (reads, writes uint64) {
	text, _ := os.ReadFile("/proc/self/io") // empty on other systems than Linux
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch n, _ := strconv.ParseUint(value, 10, 64); name {
		case "syscr":
			reads = n
		case "syscw":
			writes = n
		}
	}
	return reads, writes
}

// settled is used after garbage is gone.
func settled() usage {
	runtime.GC()
	runtime.GC() // what the first one only found out
	return used()
}

// add fills in what was used between two moments.
func (r *Result) add(before, after usage) {
	r.CPU = after.cpu - before.cpu
	r.Allocs = after.allocs - before.allocs
	r.Bytes = after.bytes - before.bytes
	r.Starts = after.starts - before.starts
	r.Runs = after.runs - before.runs
	r.Reads = after.reads - before.reads
	r.Writes = after.writes - before.writes
}
