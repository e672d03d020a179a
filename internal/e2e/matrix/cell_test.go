package matrix

import "github.com/holdfast-go/holdfast/internal/e2e/worker"

// deployment is a way of running Redis, or another store; see stores.
type deployment string

const (
	single   deployment = "single"
	sentinel deployment = "sentinel" // one master, two replicas, three sentinels
	cluster  deployment = "cluster"  // three masters with a replica each
	strict   deployment = "strict"   // as sentinel; every replica has to acknowledge, and min-replicas-to-write is 1
	quorum5  deployment = "quorum"   // five servers that know nothing of each other
)

func deployments() []deployment { return []deployment{single, sentinel, cluster, strict, quorum5} }

// kind is a kind of lock.
type kind = worker.Kind

const (
	mutex     = worker.Mutex
	reentrant = kind("reentrant")
	fair      = worker.Fair
	reader    = worker.Reader
	writer    = worker.Writer
	permit    = worker.Permit
	plain     = kind("plain semaphore")
	latch     = kind("latch")
	several   = kind("LockAll")
)

// scripts are the engine's scripts that keep the kind of lock.
func (c cell) scripts() worker.Scripts {
	if c.kind == plain {
		return worker.Scripts{Acquire: "permits_take", Release: "permits_give"}
	}
	return c.kind.Scripts()
}

// outcome is what a fault leads to, as letters in this order:
//
//	A  no effect: locks are taken, kept and released
//	E  an acquire returned an error, and left nothing
//	L  a holder was notified that its lock is lost
//	W  waiters waited for longer, and then got the lock
//	U  two held it at the same time, by what they could know
type outcome string

const letters = "AELWU"

// cell is one place of the matrix.
type cell struct {
	fault string // of faults()
	on    deployment
	kind  kind

	want  outcome
	check func(*scenario)

	by       string // the test that checks it, where that is not check: "Test", or "folder.Test"
	notified string // U: when the older holder is notified
	group    string // cells of a deployment with the same word share one fault
	proxy    bool   // the server's answer, or one of them, is given by a proxy in its place
}

// fault is one row.
type fault struct{ id, what string }

// entry is cells that differ in deployment and kind only.
type entry struct {
	fault string
	on    []deployment
	kinds []kind // nil: the mutex

	want         outcome
	check        func(*scenario)
	by, notified string
	group        string
	proxy        bool
}

func (e entry) cells() []cell {
	kinds := e.kinds
	if kinds == nil {
		kinds = []kind{mutex}
	}
	var all []cell
	for _, on := range e.on {
		for _, k := range kinds {
			all = append(all, cell{
				fault: e.fault, on: on, kind: k, want: e.want, check: e.check,
				by: e.by, notified: e.notified, group: e.group, proxy: e.proxy,
			})
		}
	}
	return all
}

// cells returns the whole matrix.
func cells() []cell {
	var all []cell
	for _, e := range entries() {
		all = append(all, e.cells()...)
	}
	return all
}
