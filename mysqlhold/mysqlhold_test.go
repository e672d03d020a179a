package mysqlhold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/answers/answerstest"
	"github.com/holdfast-go/holdfast/internal/rows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each answer has the meaning that docs/answers.md says.
func TestTableOfAnswers(t *testing.T) {
	for _, r := range answerstest.Rows(t, "..", "MySQL and MariaDB") {
		err := fmt.Errorf("wrapped: %w", fmt.Errorf("Error %s (HY000): it failed", r.Answer))
		for _, got := range []error{classify(err), noConnection(err)} {
			if meaning := answerstest.MeaningOf(got); meaning != r.Meaning || !errors.Is(got, err) {
				t.Errorf("%s: got %v, which is %s, want %s", r.Answer, got, meaning, r.Meaning)
			}
		}
	}
}

// The error of a statement that may have been executed is never driver.ErrNotExecuted.
func TestErrors(t *testing.T) {
	all := []error{driver.ErrNotExecuted, driver.ErrRefused, driver.ErrClosed, rows.ErrConflict}
	for text, want := range map[string][]error{
		"Error 1213 (40001): Deadlock found":            {driver.ErrNotExecuted, rows.ErrConflict},
		"Error 1020 (HY000): Record has changed":        {driver.ErrNotExecuted, rows.ErrConflict},
		"Error 1205 (HY000): Lock wait timeout":         {driver.ErrNotExecuted},
		"Error 1290 (HY000): --read-only option":        {driver.ErrNotExecuted},
		"Error 1142 (42000): INSERT command denied":     {driver.ErrNotExecuted, driver.ErrRefused},
		"Error 1045: Access denied":                     {driver.ErrNotExecuted, driver.ErrRefused},
		"Error 1053 (08S01): Server shutdown":           nil, // may come after the commit
		"Error 1180 (HY000): Got error during COMMIT":   nil,
		"invalid connection":                            nil,
		"it says Error 1213, and is something else":     nil,
		"Error 12130 (HY000): a number that is not one": nil,
	} {
		err := fmt.Errorf("wrapped: %w", errors.New(text))
		got := classify(err)
		if !errors.Is(got, err) {
			t.Errorf("classify(%v): got %v, which does not wrap it", err, got)
		}
		for _, kind := range all {
			if errors.Is(got, kind) != slices.Contains(want, kind) {
				t.Errorf("classify(%v): is it %v: %v", err, kind, errors.Is(got, kind))
			}
		}
	}
	if classify(nil) != nil || numberOf(context.Canceled) != 0 {
		t.Error("no error of a server is taken for one")
	}
}
