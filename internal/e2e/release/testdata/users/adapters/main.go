// Command adapters has all modules in one program, and takes a lock in memory.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/otelhold"
	"github.com/holdfast-go/holdfast/pghold"
	"github.com/holdfast-go/holdfast/promhold"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/importconf"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
	"github.com/holdfast-go/holdfast/zkhold"
)

// What the adapters are for.
var (
	_ driver.Backend = (*etcdhold.Backend)(nil)
	_ driver.Backend = (*mysqlhold.Backend)(nil)
	_ driver.Backend = (*pghold.Backend)(nil)
	_ driver.Backend = (*zkhold.Backend)(nil)
	_ redishold.Conn = (*goredisconn.Conn)(nil)
	_ redishold.Conn = (*rueidisconn.Conn)(nil)
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if _, err := importconf.Redisson([]byte("singleServerConfig:\n  address: redis://127.0.0.1:6379\n"), os.LookupEnv); err != nil {
		return err
	}
	metrics := promhold.New(nil)
	if err := prometheus.Register(metrics); err != nil {
		return err
	}
	telemetry, err := otelhold.New(nil)
	if err != nil {
		return err
	}
	locker := holdfast.New(memhold.New(), &holdfast.Options{Observe: func(ctx context.Context, e holdfast.Event) {
		metrics.Observe(ctx, e)
		telemetry.Observe(ctx, e)
	}})
	return locker.Mutex("stock:42").Do(ctx, func(_ context.Context, lock *holdfast.Lock) error {
		fmt.Println("token", lock.Token())
		return nil
	})
}
