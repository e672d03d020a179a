// Command shop sells pieces over HTTP. README.md says how to run several instances.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/promhold"
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

// run opens the shop until SIGTERM or Ctrl-C. Requests end first, then releases, then the clients.
func run(log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	payment, badPayment := time.ParseDuration(cmp.Or(os.Getenv("PAYMENT_TAKES"), "0s"))
	grace, badGrace := time.ParseDuration(cmp.Or(os.Getenv("GRACE"), "15s"))
	if err := errors.Join(err, badPayment, badGrace); err != nil {
		return fmt.Errorf("DATABASE_URL, PAYMENT_TAKES or GRACE: %w", err)
	}
	// An instance that is paused in a transaction must not block others. A pooler must let this through.
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "5s"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	rdb := redis.NewClient(&redis.Options{
		Addr: cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379"), Password: os.Getenv("REDIS_PASSWORD"),
		ReadTimeout:           2 * time.Second, // when a dead connection is closed
		ContextTimeoutEnabled: true,            // otherwise a cancelled call keeps its connection for ReadTimeout
	})
	defer rdb.Close()
	metrics := promhold.New(&promhold.Options{Group: promhold.GroupByPrefix})
	prometheus.MustRegister(metrics)
	locker := goredisconn.Locker(rdb, &holdfast.Options{
		TTL:    5 * time.Second, // how long an item stays locked after its instance was killed
		Logger: log, Observe: metrics.Observe,
	})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /buy/{item}", (&shop{locker, database{pool}.take, payment, log}).handleBuy)
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) { // readiness, not liveness
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := errors.Join(pool.Ping(ctx), rdb.Ping(ctx).Err()); err != nil {
			log.Warn("not healthy", "error", err)
			http.Error(w, "not healthy", http.StatusServiceUnavailable)
		}
	})
	requests, abort := context.WithCancel(context.Background())
	server := &http.Server{Addr: cmp.Or(os.Getenv("LISTEN"), "localhost:8080"), Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	server.BaseContext = func(net.Listener) context.Context { return requests }
	closed := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		stop() // a second signal ends the process at once
		// What still runs after the grace ends with an error, and unlocks: 5 s to write, 3 s to unlock.
		defer time.AfterFunc(grace, abort).Stop()
		end, cancel := context.WithTimeout(context.Background(), grace+8*time.Second)
		defer cancel()
		closed <- server.Shutdown(end)
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	err = <-closed // before Drain
	drain, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, locker.Drain(drain))
}
