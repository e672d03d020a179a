package deploytest

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// A node of a cluster that stands still costs no lock of another node, also
// where every renewal has to reach the replicas.
func TestFrozenNodeCostsOnlyItsLocks(t *testing.T) {
	// Not beside others: what takes replicas too long to acknowledge ends strict locks.
	d := redistest.StartDeployment(t, redistest.Cluster, redistest.NodeTimeout(15*time.Second)) // no failover meanwhile
	frozen := d.Masters()[0]
	onFrozen := func(k *holdfast.Lock) bool { return d.Master(k.Name()).Addr() == frozen.Addr() }
	strict := redishold.Options{Replicas: redishold.AllReplicas}
	var free, replicated, control []*holdfast.Lock
	for client, w := range ways() {
		free = append(free, takeMany(t, open(t, w, at(d), redishold.Options{}), client+":free", 40)...)
		replicated = append(replicated, takeMany(t, open(t, w, at(d), strict), client+":strict", 40)...)
	}
	// The control has no lock of the frozen node: what it loses, it loses for another
	// reason.
	for _, k := range takeMany(t, open(t, byURL, at(d), strict), "control", 40) {
		if !onFrozen(k) {
			control = append(control, k)
			continue
		}
		if err := k.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	theirs := map[*holdfast.Lock]bool{}
	for _, k := range append(free, replicated...) {
		theirs[k] = onFrozen(k)
	}
	frozen.Pause()
	for k, frozen := range theirs {
		if frozen { // which is the proof that it stands still
			<-k.Context(await.Context(t, 2*ttl)).Done()
		}
	}
	late := map[string]bool{} // nodes whose replicas are too slow by themselves
	for _, k := range control {
		if err := k.Err(); err != nil {
			late[d.Master(k.Name()).Addr()] = true
			t.Logf("the control lost %q: %v", k.Name(), err)
		}
	}
	if len(late) == len(d.Masters())-1 {
		t.Skip("no replica acknowledges in time: nothing to judge by")
	}
	for _, k := range free {
		wantFrozen(t, k, theirs[k])
	}
	for _, k := range replicated {
		if !late[d.Master(k.Name()).Addr()] {
			wantFrozen(t, k, theirs[k])
		}
	}
	frozen.Resume()
	for _, k := range append(append(free, replicated...), control...) {
		_ = k.Unlock() // those of the frozen node are lost, as was seen
	}
}

// takeMany takes n locks, which are on all nodes of a cluster.
func takeMany(t *testing.T, l *holdfast.Locker, name string, n int) []*holdfast.Lock {
	t.Helper()
	var locks []*holdfast.Lock
	for i := range n {
		k, err := l.Lock(await.Context(t, 10*time.Second), fmt.Sprintf("frozen:%s:%d", name, i))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		locks = append(locks, k)
	}
	return locks
}

// wantFrozen wants a lock to be lost if it is on the frozen node, and only then.
func wantFrozen(t *testing.T, k *holdfast.Lock, frozen bool) {
	t.Helper()
	if err := k.Err(); (err != nil) != frozen {
		t.Errorf("%q: got %v, want it lost: %v", k.Name(), err, frozen)
	}
}
