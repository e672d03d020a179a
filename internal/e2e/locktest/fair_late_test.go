package locktest

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// A fair lock that Redis grants at a release has a short lease, and is renewed soon.
// That is no late renewal: nothing is logged.
func TestFairGrantIsNotRenewedLate(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		var log bytes.Buffer
		first := s.other(nil)
		second := s.other(&holdfast.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		lock, err := first.FairMutex("job").Lock(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		got := make(chan *holdfast.Lock, 1)
		go func() {
			lock, err := second.FairMutex("job").Lock(s.Context())
			if err != nil {
				s.Error(err)
			}
			got <- lock
		}()
		if !await.Eventually(5*time.Second, func() bool { return s.server.Int("LLEN", "redisson_lock_queue:{job}") == 1 }) {
			s.Fatal("the second one is not in the queue")
		}
		must.Unlock(s, lock)
		lock = <-got
		time.Sleep(3 * time.Second) // longer than a third of that lease
		must.Unlock(s, lock)
		if strings.Contains(log.String(), "late") {
			s.Errorf("got the log\n%s", log.String())
		}
	})
}
