package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

// The error of a closed client alone does not end a client: the next command has to
// have the same.
func TestEnd(t *testing.T) {
	for _, tt := range []struct {
		heard, ping error
		closed      bool
	}{
		{io.EOF, errClosed, false},
		{errClosed, nil, false},
		{errClosed, io.EOF, false},
		{fmt.Errorf("wrapped: %w", errClosed), errClosed, true},
	} {
		e := &End{Closed: errClosed, Server: func(context.Context, ...string) redishold.Result { return redishold.Result{Err: tt.ping} }}
		e.Notice(t.Context(), []redishold.Result{{}, {Err: tt.heard}})
		err := e.Refuse()
		if (err != nil) != tt.closed || errors.Is(err, driver.ErrClosed) != tt.closed || errors.Is(err, errClosed) != tt.closed {
			t.Errorf("%+v: got error %v", tt, err)
		}
	}
}
