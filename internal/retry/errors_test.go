package retry_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// This package does what the table of package driver says.
func TestTableOfErrors(t *testing.T) {
	classes := map[string]error{
		"ErrNotExecuted":        driver.ErrNotExecuted,
		"ErrMismatch":           driver.ErrMismatch,
		"ErrGone":               driver.ErrGone,
		"ErrRefused":            driver.ErrRefused,
		"ErrDenied":             driver.ErrDenied,
		"ErrUnable":             driver.ErrUnable,
		"ErrInvalid":            driver.ErrInvalid,
		"ErrClosed":             fmt.Errorf("%w: %w: %w", driver.ErrClosed, driver.ErrNotExecuted, driver.ErrRefused),
		"errors.ErrUnsupported": errors.ErrUnsupported,
		"any other":             context.DeadlineExceeded,
	}
	certain := func(err error) bool { return retry.Certain(err) || retry.Gone(err) }
	rows := tableOfErrors(t)
	for name, class := range classes {
		row, ok := rows[name]
		if !ok {
			t.Errorf("driver: the table of errors has no row for %s", name)
			continue
		}
		err := fmt.Errorf("lock: %w", class)
		if got := yes(certain(err)); got != row.certain {
			t.Errorf("%s: certain: got %s, want %s as in the table", name, got, row.certain)
		}
		if got := yes(!retry.Final(err)); got != row.again {
			t.Errorf("%s: again: got %s, want %s as in the table", name, got, row.again)
		}
		if got := retry.Gone(err); got != (name == "ErrGone") {
			t.Errorf("%s: gone: got %v", name, got)
		}
		if row.executed == "no" && row.certain != "yes" {
			t.Errorf("%s: the table says that it was not executed, and that this is not certain", name)
		}
		for other, second := range classes { // an error may be of several classes
			both, last := errors.Join(second, err), rows[other]
			if got, want := certain(both), row.certain == "yes" || last.certain == "yes"; got != want {
				t.Errorf("%s and %s: certain: got %v, want %v", name, other, got, want)
			}
			if got, want := !retry.Final(both), row.again == "yes" && last.again == "yes"; got != want {
				t.Errorf("%s and %s: again: got %v, want %v", name, other, got, want)
			}
		}
	}
	if len(rows) != len(classes) {
		t.Errorf("driver: the table of errors has %d rows, want %d", len(rows), len(classes))
	}
}

type row struct{ certain, executed, again string }

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// tableOfErrors reads the table in the comment of package driver's errors.
func tableOfErrors(t *testing.T) map[string]row {
	t.Helper()
	source, err := os.ReadFile("../../driver/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	rows, gap := map[string]row{}, regexp.MustCompile(" {2,}")
	for line := range strings.Lines(string(source)) {
		text, ok := strings.CutPrefix(line, "//\t")
		cells := gap.Split(strings.TrimSpace(text), -1)
		if !ok || len(cells) != 5 || cells[0] == "error" {
			continue
		}
		rows[cells[0]] = row{cells[1], cells[2], cells[3]}
	}
	return rows
}

func TestErrorsSayWhatIsCertain(t *testing.T) {
	both := func(errs ...error) error { return errors.Join(errs...) }
	for name, test := range map[string]struct {
		err                  error
		certain, gone, final bool
	}{
		"nil":                     {nil, false, false, false},
		"any error":               {errors.New("connection reset"), false, false, false},
		"no answer":               {retry.ErrNoAnswer, false, false, false},
		"the attempt ended":       {context.DeadlineExceeded, false, false, false},
		"not executed":            {fmt.Errorf("dial: %w", driver.ErrNotExecuted), true, false, false},
		"mismatch":                {fmt.Errorf("%w: a list", driver.ErrMismatch), true, false, true},
		"gone":                    {driver.ErrGone, false, true, true},
		"gone, with a reason":     {&driver.GoneError{Reason: driver.ReasonForced}, false, true, true},
		"refused":                 {fmt.Errorf("%w: NOPERM", driver.ErrRefused), false, false, true},
		"refused, not executed":   {both(driver.ErrRefused, driver.ErrNotExecuted), true, false, true},
		"the client is closed":    {both(driver.ErrClosed, driver.ErrRefused, driver.ErrNotExecuted), true, false, true},
		"what the store has not":  {fmt.Errorf("no latches: %w", errors.ErrUnsupported), false, false, true},
		"refused while it hangs":  {both(context.DeadlineExceeded, driver.ErrRefused), false, false, true},
		"not sent since it hangs": {both(context.DeadlineExceeded, driver.ErrNotExecuted), true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := retry.Certain(test.err); got != test.certain {
				t.Errorf("Certain: got %v, want %v", got, test.certain)
			}
			if got := retry.Gone(test.err); got != test.gone {
				t.Errorf("Gone: got %v, want %v", got, test.gone)
			}
			if got := retry.Final(test.err); got != test.final {
				t.Errorf("Final: got %v, want %v", got, test.final)
			}
		})
	}
}

func TestEnded(t *testing.T) {
	for err, want := range map[error]bool{
		context.Canceled:         true,
		context.DeadlineExceeded: true,
		driver.ErrNotExecuted:    false,
	} {
		if got := retry.Ended(fmt.Errorf("try: %w", err)); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
}

// An attempt without an answer in time does not hide an earlier error of the store.
func TestToReport(t *testing.T) {
	loading, reset := errors.New("LOADING"), errors.New("connection reset")
	for name, test := range map[string]struct{ before, err, want error }{
		"the first":                      {nil, loading, loading},
		"the first had no answer":        {nil, context.DeadlineExceeded, context.DeadlineExceeded},
		"no answer after what it said":   {loading, context.DeadlineExceeded, loading},
		"what it said after no answer":   {context.DeadlineExceeded, loading, loading},
		"the last of what it said":       {loading, reset, reset},
		"the caller gave up, which says": {loading, context.Canceled, context.Canceled},
	} {
		if got := retry.ToReport(test.before, test.err); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestReasonOf(t *testing.T) {
	forced := fmt.Errorf("renew: %w", &driver.GoneError{Reason: driver.ReasonForced})
	if got := retry.ReasonOf(forced); got != driver.ReasonForced {
		t.Errorf("got %q, want the reason of the store", got)
	}
	if got := retry.ReasonOf(driver.ErrGone); got != driver.ReasonDeleted {
		t.Errorf("got %q where the store gave no reason, want %q", got, driver.ReasonDeleted)
	}
}

func TestContextError(t *testing.T) {
	plain, cancel := context.WithCancel(t.Context())
	cancel()
	if got := retry.ContextError(plain); got != context.Canceled {
		t.Errorf("got %v, want %v alone", got, context.Canceled)
	}
	reason := errors.New("shutting down")
	caused, end := context.WithCancelCause(t.Context())
	end(reason)
	if got := retry.ContextError(caused); !errors.Is(got, context.Canceled) || !errors.Is(got, reason) {
		t.Errorf("got %v, want the context's error and its cause", got)
	}
}
