package plaintest

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// A user of a library needs the rights that docs/plain.md names, on the names of
// locks. The programs also ping.
func TestRightsOfTheLibraries(t *testing.T) {
	for _, f := range peers() {
		t.Run(f.library, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rights := "reset on >secret ~stock:* +hello +client +ping +info +eval +evalsha +get +set +del +pexpire " + f.rights
			server.String(append([]string{"ACL", "SETUSER", "lib"}, strings.Fields(rights)...)...)
			p := f.start(t, "redis://lib:secret@"+server.Addr())
			s := &scenario{t, f, p, server, dial.Adapters()[0], "stock:42"}
			s.peerLocks(long)
			if s.do(peer.Command{Op: "tryLock", Thread: "other", Lease: 5000}) {
				t.Error("two threads hold it")
			}
			s.must(peer.Command{Op: "extend", Lease: long.Milliseconds()})
			s.peerUnlocks()
			if log := server.Do("ACL", "LOG"); len(log.([]any)) > 0 {
				t.Errorf("refused: %v", log)
			}
		})
	}
}
