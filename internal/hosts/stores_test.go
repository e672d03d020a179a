package hosts

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(migratorVar); text != "" {
		p := &migrator{}
		err := json.Unmarshal([]byte(text), p)
		if err == nil {
			err = p.main()
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1")) // of fiber
}

// lease is the TTL of the locks here.
const lease = 5 * time.Second

// onStores runs a test on memory and on Redis. newLocker returns that of another process.
func onStores(t *testing.T, test func(t *testing.T, newLocker func() *holdfast.Locker)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		store := memhold.New()
		test(t, func() *holdfast.Locker { return holdfast.New(store, &holdfast.Options{TTL: lease}) })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		addr := startRedis(t)
		test(t, func() *holdfast.Locker {
			return holdfast.New(openRedis(t, addr), &holdfast.Options{TTL: lease})
		})
	})
}

func openRedis(t *testing.T, addr string) driver.Backend {
	t.Helper()
	conn, err := rueidisconn.Open(await.Context(t, 10*time.Second), "redis://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return redishold.New(conn, nil)
}

// startRedis starts a server that ends with the test, and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no redis-server")
	} else if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().(*net.TCPAddr)
	_ = free.Close()
	cmd := exec.Command(program, "--port", fmt.Sprint(addr.Port), "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	await.Until(t, 10*time.Second, "the server answers", func() bool {
		conn, err := net.Dial("tcp", addr.String())
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
	return addr.String()
}
