package pghold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/answers"
	"github.com/holdfast-go/holdfast/internal/answers/answerstest"
	"github.com/holdfast-go/holdfast/internal/rows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each answer has the meaning that docs/answers.md says, as the error of a statement and as that
// of a connection that was not made.
func TestTableOfAnswers(t *testing.T) {
	for _, r := range answerstest.Rows(t, "..", "PostgreSQL and its poolers") {
		state := (r.Answer + "000")[:5]
		said := func(severity string) error {
			return fmt.Errorf("wrapped: %w", &pgconn.PgError{SeverityUnlocalized: severity, Code: state, Message: r.Text})
		}
		if got := answerstest.MeaningOf(classify(said("ERROR"))); got != r.Meaning {
			t.Errorf("a statement, %s %q: got %s, want %s", state, r.Text, got, r.Meaning)
		}
		want := r.Meaning
		if want == answers.Conflict { // no transaction has begun
			want = answers.Later
		}
		if got := answerstest.MeaningOf(noConnection(said("FATAL"))); got != want {
			t.Errorf("a connection, %s %q: got %s, want %s", state, r.Text, got, want)
		}
		if got := answerstest.MeaningOf(classify(said("FATAL"))); got != answers.Unknown {
			t.Errorf("the end of a session, %s %q: got %s, want unknown", state, r.Text, got)
		}
	}
}

// The error of a statement that may have been executed is never driver.ErrNotExecuted.
func TestErrors(t *testing.T) {
	said := func(severity, code string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{SeverityUnlocalized: severity, Code: code})
	}
	all := []error{driver.ErrNotExecuted, driver.ErrRefused, driver.ErrClosed, rows.ErrConflict}
	for _, c := range []struct {
		err  error
		want []error
	}{
		{said("ERROR", "40001"), []error{driver.ErrNotExecuted, rows.ErrConflict}},
		{said("ERROR", "40P01"), []error{driver.ErrNotExecuted, rows.ErrConflict}},
		{said("ERROR", "42P05"), []error{driver.ErrNotExecuted, driver.ErrRefused}},
		{said("ERROR", "25006"), []error{driver.ErrNotExecuted}}, // a standby: a failover may be under way
		{said("ERROR", "57014"), []error{driver.ErrNotExecuted}}, // statement_timeout
		{said("FATAL", "57P01"), nil},                            // may come after the commit
		{said("FATAL", "08P01"), nil},
		{said("PANIC", "XX000"), nil},
		{errors.New("connection reset"), nil},
		{context.DeadlineExceeded, nil},
	} {
		got := classify(c.err)
		if !errors.Is(got, c.err) {
			t.Errorf("classify(%v): got %v, which does not wrap it", c.err, got)
		}
		for _, kind := range all {
			if errors.Is(got, kind) != slices.Contains(c.want, kind) {
				t.Errorf("classify(%v): is it %v: %v", c.err, kind, errors.Is(got, kind))
			}
		}
	}
	if classify(nil) != nil {
		t.Error("classify(nil): got an error")
	}
}

// A server that is unreachable is not a refusal, and nothing was executed.
func TestNoServer(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none?connect_timeout=5")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b := New(pool, nil)
	_, err = b.Try(t.Context(), driver.Claim{Name: "job", Owner: "a:1", TTL: time.Second, Tokens: 1})
	if !errors.Is(err, driver.ErrNotExecuted) || errors.Is(err, driver.ErrRefused) {
		t.Errorf("Try: got %v, want ErrNotExecuted alone", err)
	}
	if err := b.LockTx(t.Context(), nil, strings.Repeat("n", 513)); err == nil {
		t.Error("LockTx of a name of 513 bytes: got no error")
	}
}

// The channel of a table has a name of at most 63 bytes, whose last character is whole.
func TestChannelOfALongName(t *testing.T) {
	for table, want := range map[string]string{
		"ops.locks":                    "locks",
		strings.Repeat("x", 70):        strings.Repeat("x", 63),
		strings.Repeat("x", 62) + "äx": strings.Repeat("x", 62),
	} {
		if got := New(nil, &Options{Table: table}).table.channel; got != want {
			t.Errorf("table %q: got the channel %q, want %q", table, got, want)
		}
	}
}
