package deploytest

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// A node of a cluster that stands still costs no lock of another node, also
// where every renewal has to reach the replicas.
func TestFrozenNodeCostsOnlyItsLocks(t *testing.T) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Cluster, redistest.NodeTimeout(15*time.Second)) // no fail-over meanwhile
	frozen := d.Masters()[0]
	var locks []*holdfast.Lock
	for client, w := range ways() {
		for _, o := range []redishold.Options{{}, {Replicas: redishold.AllReplicas}} {
			l := open(t, w, at(d), o)
			for i := range 40 {
				k, err := l.Lock(within(t, 10*time.Second), fmt.Sprintf("frozen:%s:%d:%d", client, o.Replicas, i))
				if err != nil {
					t.Fatalf("%s, replicas %d: %v", client, o.Replicas, err)
				}
				locks = append(locks, k)
			}
		}
	}
	theirs := map[*holdfast.Lock]bool{}
	for _, k := range locks {
		theirs[k] = d.Master(k.Name()).Addr() == frozen.Addr()
	}
	frozen.Pause()
	time.Sleep(6 * time.Second) // more than the TTL
	lost, kept := 0, 0
	for _, k := range locks {
		switch err := k.Err(); {
		case theirs[k] && err != nil:
			lost++
		case theirs[k]:
			t.Errorf("%q is still believed in", k.Name())
		case err != nil:
			t.Errorf("%q, which is on another node: %v", k.Name(), err)
		default:
			kept++
		}
	}
	if lost < 30 || kept < 100 {
		t.Errorf("%d locks lost, %d kept: too few to judge", lost, kept)
	}
	frozen.Resume()
	for _, k := range locks {
		_ = k.Unlock() // those of the frozen node are lost, as was seen
	}
}
