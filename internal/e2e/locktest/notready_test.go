package locktest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// A server that says "not now" is asked again: by TryLock a few times, by Lock
// until it is ready, by renewals and Unlock for as long as the lease lasts.
func TestServerThatIsNotReady(t *testing.T) {
	await.NotShort(t, "takes long")
	for code, words := range map[string]string{
		"LOADING":     "Redis is loading the dataset in memory",
		"READONLY":    "You can't write against a read only replica.",
		"MASTERDOWN":  "Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"CLUSTERDOWN": "The cluster is down",
		"TRYAGAIN":    "Multiple keys request during rehashing of slot",
		"BUSY":        "Redis is busy running a script.",
	} {
		t.Run(code, func(t *testing.T) {
			eachAdapter(t, func(s *subject) {
				var seen renewals
				l := s.locker(&holdfast.Options{TTL: 3 * time.Second, Observe: seen.observe})
				s.warm(l)
				notNow := faultproxy.Reply("-" + code + " " + words + "\r\n")

				rule := s.proxy.On(faultproxy.Script(redistest.ScriptSHA(s, "acquire")), notNow, faultproxy.Always())
				start := time.Now()
				_, err := l.TryLock(s.Context(), "job")
				if err == nil || errors.Is(err, holdfast.ErrBusy) || !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), code) {
					s.Errorf("TryLock: got %v, want the server's %s", err, code)
				}
				within(s, "TryLock", time.Since(start), time.Second)
				ctx, cancel := context.WithCancel(s.Context())
				asked := rule.Count()
				waited := make(chan error, 1)
				go func() {
					_, err := l.Lock(ctx, "job")
					waited <- err
				}()
				rule.Wait(s, asked+4) // it heard an answer before it asked again
				cancel()
				err = <-waited
				if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), code) {
					s.Errorf("Lock: got %v, want the context's error and the server's", err)
				}
				time.AfterFunc(200*time.Millisecond, rule.Release)
				start = time.Now()
				lock := must.Lock(s, l, "job")
				within(s, "Lock of a server that is ready again", time.Since(start), time.Second)

				rule = s.proxy.On(faultproxy.Script(redistest.ScriptSHA(s, "renew")), notNow, faultproxy.Always())
				rule.Wait(s, 3)
				ready := time.Now()
				rule.Release()
				await.Until(s, 3*time.Second, "a renewal of a server that is ready again", func() bool { return lock.Err() != nil || seen.after(ready) })
				if err := lock.Err(); err != nil {
					s.Errorf("after renewals that were put off: %v", err)
				}
				rule = s.proxy.On(anyScript(s, "release", "abandon"), notNow, faultproxy.Times(3)) // the latter after a slow acquire
				must.Unlock(s, lock)
				rule.Wait(s, 3)
				gone(s, s.server.Admin, 0)
			})
		})
	}
}
