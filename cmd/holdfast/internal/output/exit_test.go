package output

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// The text of package net for a missing answer becomes one for people, and the causes stay.
func TestStoreErrorsArePlain(t *testing.T) {
	for text, want := range map[string]string{
		"read tcp 127.0.0.1:59376->192.0.2.1:6379: i/o timeout": "no answer of 192.0.2.1:6379 in time",
		"write unix /run/redis.sock: i/o timeout":               "no answer of /run/redis.sock in time",
		"i/o timeout": "no answer in time",
		"EOF":         "EOF",
	} {
		cause := errors.New(text)
		err := StoreError(fmt.Errorf("list locks: %w: %w", cause, driver.ErrNotExecuted))
		if want := fmt.Sprintf("list locks: %s: %v", want, driver.ErrNotExecuted); err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
		if !errors.Is(err, cause) || !errors.Is(err, driver.ErrNotExecuted) {
			t.Errorf("%v hides its causes", err)
		}
	}
}
