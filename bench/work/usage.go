package work

import (
	"runtime"
	"syscall"
	"time"
)

// usage is what the process has used so far.
type usage struct {
	cpu           time.Duration
	allocs, bytes uint64
	memory        int64 // in use: heap and stacks
	goroutines    int
}

func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // cannot fail for the process itself
	return usage{
		cpu:    time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		allocs: m.Mallocs, bytes: m.TotalAlloc,
		memory:     int64(m.HeapAlloc + m.StackInuse),
		goroutines: runtime.NumGoroutine(),
	}
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
}
