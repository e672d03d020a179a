package hosts

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
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

// onStores runs a test on memory and on Redis. newLocker returns that of another process.
func onStores(t *testing.T, test func(t *testing.T, newLocker func() *holdfast.Locker)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		store := memhold.New()
		test(t, func() *holdfast.Locker { return holdfast.New(store, nil) })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		addr := redistest.Start(t).Addr()
		test(t, func() *holdfast.Locker { return holdfast.New(openRedis(t, addr), nil) })
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
