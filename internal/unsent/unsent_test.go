package unsent_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

func TestError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for text, want := range map[string]string{
			"dial tcp 127.0.0.1:6379: connect: connection refused":                                                  "cannot connect to 127.0.0.1:6379: connection refused",
			"dial unix /run/redis.sock: connect: no such file":                                                      "cannot connect to /run/redis.sock: no such file",
			"dial tcp [::1]:6379: i/o timeout":                                                                      "cannot connect to [::1]:6379: i/o timeout",
			`rpc error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`: "cannot connect to 127.0.0.1:1: connection refused",
			"failed to connect to `user=u`:\n\t127.0.0.1:1 (127.0.0.1): dial error: dial tcp 127.0.0.1:1: connect: connection refused\n\th:5432 (10.0.0.1): server error: FATAL: no":                     "cannot connect to 127.0.0.1:1: connection refused; h:5432 (10.0.0.1): server error: FATAL: no",
			"failed to connect to `user=u`:\n\t127.0.0.1:1 (127.0.0.1): dial tcp 127.0.0.1:1: connect: connection refused\n\t127.0.0.1:1 (127.0.0.1): dial tcp 127.0.0.1:1: connect: connection refused": "cannot connect to 127.0.0.1:1: connection refused",
			"there is no table, make it:\n\tname TEXT,\n\tname TEXT": "there is no table, make it:\n\tname TEXT,\n\tname TEXT",
			"no connection is free":                                  "no connection is free",
		} {
			if got := unsent.Error(errors.New(text)).Error(); got != want {
				t.Errorf("%q: got %q, want %q", text, got, want)
			}
		}
		if err := unsent.Error(io.EOF); !errors.Is(err, driver.ErrNotExecuted) || !errors.Is(err, io.EOF) {
			t.Errorf("%v is not what it has to be", err)
		}
	})
}
