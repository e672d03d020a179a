package redishold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Incarnation returns the server's run id, which changes with every start of it,
// and for how long it has certainly been up, by its own wall clock. It asks the
// server each time, with one INFO. Package quorum tells by it whether a node may
// have lost its memory.
//
// A cluster has no such id: the error is errors.ErrUnsupported. The error of a
// server that does not tell, for want of the right to INFO, is driver.ErrRefused.
func (b *Backend) Incarnation(ctx context.Context) (id string, uptime time.Duration, err error) {
	info, err := b.conn.Server(ctx)
	switch {
	case err != nil:
		return "", 0, classifyLogin(err)
	case info.Cluster:
		return "", 0, fmt.Errorf("redis: a cluster is no single server: %w", errors.ErrUnsupported)
	case info.RunID == "":
		return "", 0, fmt.Errorf("redis: the server does not tell its run id; grant the user +info: %w", driver.ErrRefused)
	}
	// Both the time of the start and that of the answer are cut to seconds.
	return info.RunID, max(0, info.Uptime-time.Second), nil
}
