package deploytest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// In a cluster, Wake reaches those who listen on the sharded channel of a lock only: some versions
// of Redisson do. Only the node of the lock accepts a message on that channel, so a lock of each node
// is tried several times.
func TestWakeReachesShardedListeners(t *testing.T) {
	if !redistest.Has(t, redistest.ShardedChannels) {
		t.Skip("the server has no sharded channels")
	}
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Cluster)
	perSlot := nameOfEachSlot()
	names := []string{perSlot[0], perSlot[slots/2], perSlot[slots-1]} // of three nodes
	const times = 5
	for way, w := range ways() {
		store := openStore(t, w, at(d), redishold.Options{})
		for _, name := range names {
			heard := d.Master(name).ListenSharded("redisson_lock__channel:{" + name + "}")
			for range times {
				if err := store.Wake(await.Context(t, 10*time.Second), driver.Claim{Name: name}); err != nil {
					t.Fatalf("%s: Wake of %q: %v", way, name, err)
				}
			}
			for _, m := range heard.Wait(times) {
				if m.Payload != "0" {
					t.Errorf("%s: got the message %q, want that of an unlock", way, m.Payload)
				}
			}
		}
	}
}
