package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

// misuse is an error that is the URL's fault: the servers are there and are
// others than it says.
type misuse struct{ text string }

// Error returns what is wrong, and what would be right.
func (e *misuse) Error() string { return e.text }

// where names the servers of a URL. Addresses are no secrets; the rest of the
// URL stays out of errors.
func (t *target) where() string {
	addrs := strings.Join(t.option.InitAddress, ", ")
	switch t.deployment {
	case sentinelsSet:
		return "redis Sentinel at " + addrs
	case onlyCluster:
		return "redis cluster at " + addrs
	default:
		return "redis at " + addrs
	}
}

// failed says what could not be opened, and sorts why as Open promises.
func (t *target) failed(ctx context.Context, where string, err error) error {
	var wrong *misuse
	reply, refused := rueidis.IsRedisErr(err)
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("open %s: %w", where, err)
	case refused && strings.Contains(reply.Error(), "SELECT is not allowed in cluster mode"):
		return fmt.Errorf("open %s: %w: only clusters of Valkey 9 or newer have databases other than 0; name none",
			where, &redishold.ReplyError{Text: reply.Error()})
	case refused && strings.Contains(reply.Error(), "DB index is out of range"):
		return fmt.Errorf("open %s: %w: there is no database %d; how many there are is the server's setting databases, in a cluster of Valkey 9 cluster-databases",
			where, &redishold.ReplyError{Text: reply.Error()}, t.option.SelectDB)
	case refused && t.deployment == onlyCluster && strings.Contains(reply.Error(), "cluster support disabled"):
		return fmt.Errorf("open %s: %w", where, errNoCluster())
	case refused:
		return fmt.Errorf("open %s: %w", where, &redishold.ReplyError{Text: reply.Error()})
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return fmt.Errorf("open %s: %w: %w", where, driver.ErrNotExecuted, err)
	case ctx.Err() != nil:
		return fmt.Errorf("open %s: %w: %w: %w", where, driver.ErrNotExecuted, ctx.Err(), err)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		// A timeout of our own must not pass for the end of the caller's context.
		return fmt.Errorf("open %s: %w: no answer within %v (%v)", where, driver.ErrNotExecuted, t.option.Dialer.Timeout, err) //nolint:errorlint // hidden on purpose
	default:
		return fmt.Errorf("open %s: %w: %w", where, driver.ErrNotExecuted, err)
	}
}

func errNoCluster() error {
	return &misuse{"the server is no node of a cluster: use redis:// with one address"}
}
