package pgtest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/pghold"
)

// TestSettings takes a lock in sessions with each value of each setting that the server
// lists: on and off, each of a few words, the least and the largest number. The lock works,
// or is refused.
func TestSettings(t *testing.T) {
	_, admin := start(t)
	url := database(t)
	rows, err := admin.Query(`SELECT name, unnest(CASE vartype WHEN 'bool' THEN '{on,off}' WHEN 'enum' THEN enumvals ELSE ARRAY[min_val, max_val] END)
FROM pg_settings WHERE context IN ('user', 'superuser') AND vartype <> 'string' AND name !~ '^(log_|debug_print|trace_|transaction_|default_transaction_read_only)'`) // a read-only server may be a standby: a lock waits
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if err := pghold.New(newPool(t, url), nil).CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	tried, refused := 0, []string(nil)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			t.Fatal(err)
		}
		tried++
		switch err := tryWith(t, url, name, value); {
		case errors.Is(err, driver.ErrRefused) && !strings.Contains(err.Error(), "as it must be"):
			refused = append(refused, name+"="+value)
		case err != nil:
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	if t.Logf("%d settings, refused: %q", tried, refused); rows.Err() != nil || tried < 200 {
		t.Errorf("only %d settings, %v", tried, rows.Err())
	}
}

// tryWith has two clients of a session with a setting exclude each other.
func tryWith(t *testing.T, url, name, value string) error {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(name, "jit") {
		config.ConnConfig.RuntimeParams["jit"] = "off" // the greatest cost has each statement compiled, for seconds on a busy machine
	}
	config.ConnConfig.RuntimeParams[name], config.MaxConns = value, 2
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ctx := await.Context(t, 10*time.Second)
	b := pghold.New(pool, nil)
	held, err := holdfast.New(b, nil).Lock(ctx, name)
	if err != nil {
		return err
	}
	if _, err := holdfast.New(b, nil).TryLock(ctx, name); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("%s=%s: a second holder: got %v, want ErrBusy", name, value, err)
	}
	return held.Unlock()
}
