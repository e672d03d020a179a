// Command shop sells pieces over HTTP. README.md says how to run several instances.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/promhold"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := run(log); err != nil {
		log.Error("the shop ends", "error", err)
		os.Exit(1)
	}
}

// run opens the shop until SIGTERM or Ctrl-C. The clients are closed last.
func run(log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rdb := redis.NewClient(&redis.Options{
		Addr:                  cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379"),
		Password:              os.Getenv("REDIS_PASSWORD"),
		ReadTimeout:           2 * time.Second, // when a dead connection is closed
		ContextTimeoutEnabled: true,            // otherwise a cancelled call keeps its connection for ReadTimeout
	})
	defer rdb.Close()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer pool.Close()
	payment, err := time.ParseDuration(cmp.Or(os.Getenv("PAYMENT_TAKES"), "0s"))
	if err != nil {
		return fmt.Errorf("PAYMENT_TAKES: %w", err)
	}
	metrics := promhold.New(&promhold.Options{Group: promhold.GroupByPrefix})
	prometheus.MustRegister(metrics)
	locker := holdfast.New(redishold.New(goredisconn.New(rdb), &redishold.Options{Logger: log}), &holdfast.Options{
		TTL:    5 * time.Second, // how long an item stays locked after its instance was killed
		Logger: log, Observe: metrics.Observe,
	})
	s := &shop{locker, database{pool}, payment, log}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /buy/{item}", s.handleBuy)
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		if err := errors.Join(pool.Ping(r.Context()), rdb.Ping(r.Context()).Err()); err != nil {
			log.Warn("not healthy", "error", err)
			http.Error(w, "not healthy", http.StatusServiceUnavailable)
		}
	})
	addr := cmp.Or(os.Getenv("LISTEN"), "localhost:8080")
	return serve(ctx, &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: 5 * time.Second}, locker)
}

// serve answers requests until ctx ends. It returns when no request runs, and no release.
func serve(ctx context.Context, server *http.Server, locker *holdfast.Locker) error {
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(grace), locker.Drain(grace)) // in this order
}
