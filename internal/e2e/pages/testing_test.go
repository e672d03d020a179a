//go:build unix

package pages_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
)

// The page has the code of two files, whose tests are those of the page.
func TestTesting(t *testing.T) {
	pages.Within(t, "docs/testing.md", "go", "memhold/testing_page_test.go", "internal/e2e/pages/testing_test.go")
}

// openRedis starts a Redis that ends with the test, and returns a store in it.
func openRedis(t *testing.T) driver.Backend {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server := exec.CommandContext(t.Context(), "redis-server", "--port", "0", "--unixsocket", socket, "--save", "")
	if err := server.Start(); errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Wait() // the end of t.Context kills it
	})
	return redishold.New(goredisconn.New(client), nil)
}

func TestOnRedis(t *testing.T) {
	locker := holdfast.New(openRedis(t), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	lock, err := locker.Lock(ctx, "stock:42") // waits until the server is ready
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	if err := locker.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}
