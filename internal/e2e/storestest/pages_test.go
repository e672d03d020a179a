package storestest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// TestStorePages does what the page of each store says, block by block: it adds the module,
// writes the program, makes what an administrator makes, and runs the program with the
// permissions of the page. Then it takes these permissions away, one at a time.
func TestStorePages(t *testing.T) {
	await.NotShort(t, "compiles the programs of the pages")
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		redisPage(t)
	})
	ofStores(t, anystore.All(), func(t *testing.T, k *anystore.Kind) {
		if k.Page == nil {
			t.Skip("it has no page")
		}
		k.Page(t)
	})
}

func redisPage(t *testing.T) {
	server := redistest.Start(t)
	r := pages.NewReader(t, "localhost:6379", server.Addr())
	r.Follow("docs/redis.md")
	// TestProposedRightsAreThoseOfTheDocuments has the other permissions.
	server.Do("ACL", "SETUSER", "holdfast", "-hset")
	r.WantRefusal("without +hset", "+hset")
}
