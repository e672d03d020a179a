package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	reopenFirst = 250 * time.Millisecond // the pause after the first attempt to reach a store
	reopenMost  = 2 * time.Second
)

// OpenWaiting is openLocks, again and again while the store cannot be reached: until limit
// is over, however long if that is negative, or until ctx ends.
func (o *Connection) OpenWaiting(ctx context.Context, r Request, limit time.Duration, env output.Environment, report *output.Reporter) (*Store, error) {
	began := time.Now()
	for pause := reopenFirst; ; pause = min(2*pause, reopenMost) {
		s, err := o.openLocks(ctx, r, env, report)
		left := limit - time.Since(began)
		var exit *output.ExitError
		if !errors.As(err, &exit) || exit.Code != output.ExitUnreachable || limit >= 0 && left <= 0 {
			return s, err
		}
		if pause == reopenFirst {
			report.Line(output.LevelNotice, fmt.Sprintf("waiting for the store: %v", err))
		}
		if limit >= 0 {
			pause = min(pause, left)
		}
		if !retry.Sleep(ctx, pause) {
			return nil, err
		}
	}
}
