package storestest

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/must"
)

// The tokens of etcd and of ZooKeeper fall when the store has lost its data. Doctor says so, if
// it gets the last token of a resource; with a smaller one, it finds nothing.
func TestTokensAfterLostData(t *testing.T) {
	binary := must.Build(t)
	for _, k := range []*anystore.Kind{anystore.Etcd(), anystore.ZooKeeper()} {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			token := func(dir string, locks int) (last uint64, addr string) {
				s, err := k.Run(dir)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.Close)
				b, shut, err := k.Dial(s.Addr, refusedTTL)
				if err != nil {
					t.Fatal(err)
				}
				defer shut()
				l := holdfast.New(b, nil)
				for range locks {
					lock := must.Lock(t, l, "job")
					last = lock.Token()
					must.Unlock(t, lock)
				}
				must.Drain(t, l)
				return last, s.Addr
			}
			doctor := func(addr string, accepted uint64) string {
				cmd := exec.Command(binary, "doctor", "--verbose", "-u", k.URL(addr), "-t", "10s", "--last-token", strconv.FormatUint(accepted, 10))
				out, _ := cmd.CombinedOutput()
				return string(out)
			}
			before, addr := token(t.TempDir(), 20)
			if text := doctor(addr, before); !strings.Contains(text, "a new token is larger than") {
				t.Errorf("with its data, doctor says:\n%s", text)
			}
			after, addr := token(t.TempDir(), 1)
			if after >= before {
				t.Errorf("got token %d after %d: the documents say that tokens fall", after, before)
			}
			if text := doctor(addr, before); !strings.Contains(text, "the store has lost data") {
				t.Errorf("without its data, doctor says:\n%s", text)
			}
		})
	}
}
