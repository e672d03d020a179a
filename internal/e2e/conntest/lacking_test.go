package conntest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// A proxy that knows the commands of the scripts and no others is enough for a lock, and
// for those who wait for it.
func TestScriptsAreEnough(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	proxy.On(faultproxy.Except(faultproxy.Command("EVALSHA", "EVAL", "SCRIPT")), faultproxy.Unknown(), faultproxy.Always())
	for _, s := range subjects() {
		if s.name == "rueidis/New" {
			continue // rueidis itself caches with CLIENT, unless the program turns that off
		}
		t.Run(s.name, func(t *testing.T) {
			conn, closeConn, err := s.open(login{addr: proxy.Addr()})
			if err != nil {
				t.Fatal(err)
			}
			defer closeConn()
			first, second := holdfast.New(redishold.New(conn, nil), nil), holdfast.New(redishold.New(conn, nil), nil)
			held, err := first.Lock(await.Context(t, 5*time.Second), s.name)
			if err != nil {
				t.Fatal(err)
			}
			waited := make(chan error, 1)
			go func() {
				next, err := second.Lock(await.Context(t, 10*time.Second), s.name)
				if err == nil {
					err = next.Unlock()
				}
				waited <- err
			}()
			if err := held.Unlock(); err != nil {
				t.Error(err)
			}
			if err := <-waited; err != nil {
				t.Error(err)
			}
		})
	}
}
