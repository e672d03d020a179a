package pgtest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/pghold"
)

// The rows of a thousand locks are renewed by few statements, one for each call.
func TestManyLocksAreRenewedTogether(t *testing.T) {
	const ttl = 6 * time.Second
	url, _ := start(t)
	var sent statements
	pool := newPool(t, url, func(config *pgxpool.Config) { config.ConnConfig.Tracer = &sent })
	b := sqltest.Prepared(t, pghold.New(pool, nil))
	l := holdfast.New(b, &holdfast.Options{TTL: ttl})
	defer must.Drain(t, l)
	manytest.Renewals(t, l, ttl/3, 1, func() int { return int(sent.n.Load()) })
}

// statements counts all that are sent.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
