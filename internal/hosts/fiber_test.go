package hosts

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/named"
)

// Two servers that get the same request at the same time do its work once, and answer alike.
func TestFiberIdempotency(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
		var storage responses
		var orders atomic.Int64
		var clients, asked sync.WaitGroup
		asked.Add(6)
		for range 2 {
			app := fiber.New()
			app.Use(idempotency.New(idempotency.Config{
				Lock:    askedKeys{named.NewKeys(newLocker(), "idempotency/", holdfast.Wait(time.Minute)), &asked},
				Storage: &storage,
			}))
			app.Post("/", func(c fiber.Ctx) error {
				orders.Add(1)
				asked.Wait() // until all clients have asked for the lock
				return c.SendString("order 1")
			})
			for range 3 {
				clients.Go(func() {
					r := httptest.NewRequest(http.MethodPost, "/", nil)
					r.Header.Set("X-Idempotency-Key", strings.Repeat("a", 36))
					answer, err := app.Test(r, fiber.TestConfig{}) // without a limit
					if err != nil {
						t.Error(err)
						return
					}
					body, err := io.ReadAll(answer.Body)
					if err != nil || answer.StatusCode != http.StatusOK || string(body) != "order 1" {
						t.Errorf("status %d, %q, %v", answer.StatusCode, body, err)
					}
				})
			}
		}
		clients.Wait()
		if n := orders.Load(); n != 1 {
			t.Errorf("%d orders", n)
		}
	})
}

// askedKeys counts who has asked for a lock.
type askedKeys struct {
	idempotency.Locker
	asked *sync.WaitGroup
}

func (k askedKeys) Lock(key string) error {
	k.asked.Done()
	return k.Locker.Lock(key)
}

// responses is a fiber.Storage that both servers have.
type responses struct{ all sync.Map }

func (s *responses) Get(key string) ([]byte, error) {
	v, _ := s.all.Load(key)
	value, _ := v.([]byte)
	return value, nil
}

func (s *responses) Set(key string, value []byte, _ time.Duration) error {
	s.all.Store(strings.Clone(key), append([]byte(nil), value...))
	return nil
}

func (s *responses) Delete(key string) error { s.all.Delete(key); return nil }
func (s *responses) Reset() error            { s.all.Clear(); return nil }
func (s *responses) Close() error            { return nil }

func (s *responses) GetWithContext(_ context.Context, key string) ([]byte, error) { return s.Get(key) }

func (s *responses) DeleteWithContext(_ context.Context, key string) error { return s.Delete(key) }

func (s *responses) ResetWithContext(context.Context) error { return s.Reset() }

func (s *responses) SetWithContext(_ context.Context, key string, value []byte, d time.Duration) error {
	return s.Set(key, value, d)
}
