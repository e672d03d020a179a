package promhold_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/promhold"
)

// Metrics are registered once and get the events of a Locker.
func Example() {
	metrics := promhold.New(&promhold.Options{Group: promhold.GroupByPrefix})
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	locker := holdfast.New(memhold.New(), &holdfast.Options{Observe: metrics.Observe})

	lock, err := locker.Lock(context.Background(), "stock:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Unlock()

	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, "holdfast_held") {
			fmt.Print(line)
		}
	}

	// Output:
	// holdfast_held{kind="mutex",lock_group="stock"} 1
}

// Several observers are one function that calls each.
func ExampleMetrics_Observe() {
	metrics := promhold.New(nil)
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	locker := holdfast.New(memhold.New(), &holdfast.Options{
		Observe: func(ctx context.Context, e holdfast.Event) {
			metrics.Observe(ctx, e)
			log.InfoContext(ctx, string(e.Type), "lock", e.Name)
		},
	})

	err := locker.Mutex("stock:42").Do(context.Background(), func(context.Context, *holdfast.Lock) error { return nil })
	fmt.Println(err)

	// Output:
	// level=INFO msg=call lock=stock:42
	// level=INFO msg=acquire lock=stock:42
	// level=INFO msg=call lock=stock:42
	// level=INFO msg=release lock=stock:42
	// <nil>
}
