package scripttest

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// Redisson takes a read-write lock over an exclusive lock of the same name. The next renewal of
// the exclusive lock, or a repeated try, ends it with the reason, and leaves nothing of it that
// Redisson would count as a reader.
func TestReadWriteLockOverAnotherKind(t *testing.T) {
	const java = "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:57"
	server, b := startStore(t, nil)
	for _, kind := range []string{"mutex", "fair"} {
		for side, scripts := range map[string][2]string{"read": {javaReadAcquire, javaReadRelease}, "write": {javaWriteAcquire, javaWriteRelease}} {
			for notices, notice := range map[string]func(t *testing.T, b driver.Backend, c driver.Claim){
				"renewal": func(t *testing.T, b driver.Backend, c driver.Claim) {
					renewals, err := b.Renew(bounded(t), []driver.Claim{c})
					var gone *driver.GoneError
					if err != nil || !errors.As(renewals[0].Err, &gone) || gone.Reason != driver.ReasonNotOwner || !strings.Contains(gone.Detail, "read-write lock of this name") {
						t.Errorf("Renew: got %+v and %v, want that a read-write lock has taken the name", renewals, err)
					}
				},
				"repeated try": func(t *testing.T, b driver.Backend, c driver.Claim) {
					if out, err := b.Try(bounded(t), c); !errors.Is(err, driver.ErrMismatch) {
						t.Errorf("Try: got %+v and %v, want ErrMismatch", out, err)
					}
				},
				"release with AtLeast": func(t *testing.T, b driver.Backend, c driver.Claim) {
					c.AtLeast = c.TTL
					if err := b.Release(bounded(t), c); !errors.Is(err, driver.ErrGone) {
						t.Errorf("Release: got %v, want ErrGone", err)
					}
				},
			} {
				if kind == "fair" && notices == "release with AtLeast" {
					continue // which a fair lock does not have
				}
				t.Run(kind+" "+side+" "+notices, func(t *testing.T) {
					server.String("FLUSHALL")
					c := kindClaim(kind, "stock:42", "1")
					mustGrant(t, b, c)
					takes := func(script string) any {
						return server.Do("EVAL", script, "1", "stock:42", java, "20000", "{stock:42}", "redisson_rwlock:{stock:42}")
					}
					if reply := takes(scripts[0]); reply != nil {
						t.Fatalf("Redisson's lock: got the reply %v, want that it is taken", reply)
					}
					// Until then, operators see both holders.
					records, err := b.Get(bounded(t), "stock:42")
					if err != nil {
						t.Fatal(err)
					}
					record := records[0]
					if record.Holders != 1 || len(record.Holds) != 1 || record.Holds[0].Owner != java || len(record.Unleased) != 1 || record.Unleased[0].Owner != c.Owner {
						t.Errorf("the list has the holds %+v and without a lease %+v, want those of Redisson and of Go", record.Holds, record.Unleased)
					}
					notice(t, b, c)
					field := java
					if side == "write" {
						field += ":write"
					}
					if fields := server.Strings("HKEYS", "stock:42"); len(fields) != 2 || fields[0] != "mode" && fields[1] != "mode" || fields[0] != field && fields[1] != field {
						t.Errorf("the lock has the fields %q, want those of Redisson alone", fields)
					}
					takes(scripts[1])
					if n := server.Int("EXISTS", "stock:42"); n != 0 {
						t.Error("the lock of Redisson exists after its release")
					}
				})
			}
		}
	}
}
