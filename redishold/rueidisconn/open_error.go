package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// misuse is an error of the URL: the servers respond, but are of another deployment.
type misuse string

func (m misuse) Error() string { return string(m) }

const errNoCluster misuse = "the server is no node of a cluster: use redis:// with one address"

// where returns a text for errors that names the servers of the URL. Addresses are not secret;
// the rest of the URL may be.
func (t *target) where() string {
	kind := map[redisurl.Deployment]string{redisurl.Sentinels: "Sentinel ", redisurl.OnlyCluster: "cluster "}[t.Deployment]
	return "redis " + kind + "at " + strings.Join(t.Addrs, ", ")
}

// failed returns the error of Open. The parameter `where` names the servers that caused err.
func (t *target) failed(ctx context.Context, where string, err error) error {
	reply, refused := rueidis.IsRedisErr(err)
	switch {
	case errors.As(err, new(misuse)):
	case refused:
		err = t.refused(reply.Error())
	case ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		// The caller must not take a timeout of this package for the end of its own context.
		err = unsent.Error(fmt.Errorf("no answer within %v (%v)", t.option.Dialer.Timeout, err)) //nolint:errorlint // hidden on purpose
	default:
		err = adapter.Classify(ctx, err, true)
		if about := t.otherProtocol(err.Error()); about != "" {
			err = fmt.Errorf("%w: %s", err, about)
		}
	}
	return fmt.Errorf("open %s: %w", where, err)
}

// otherProtocol returns the likely cause of an error if the server seems to be no Redis, or to
// use TLS in another way than the URL says. Otherwise it returns "".
func (t *target) otherProtocol(text string) string {
	ended := strings.HasSuffix(text, "EOF") || strings.HasSuffix(text, "connection reset by peer")
	switch {
	case strings.Contains(text, "first record does not look like a TLS handshake"), ended && t.TLS:
		return "the server does not seem to use TLS there: use redis:// in place of rediss://, or its port for TLS"
	case ended:
		return "the server closed the connection: maybe it requires TLS (rediss://), or it is not a Redis"
	}
	return ""
}

// refused returns the error for an error reply, with an explanation if there is one.
func (t *target) refused(text string) error {
	reply := &redishold.ReplyError{Text: text}
	switch {
	case strings.Contains(text, "SELECT is not allowed in cluster mode"):
		return fmt.Errorf("%w: only clusters of Valkey 9 or newer have databases other than 0; name none", reply)
	case strings.Contains(text, "DB index is out of range"):
		return fmt.Errorf("%w: there is no database %d; the server's setting databases (cluster-databases in a cluster of Valkey 9) limits the number", reply, t.DB)
	case t.Deployment == redisurl.OnlyCluster && strings.Contains(text, "cluster support disabled"):
		return errNoCluster
	}
	return wire.ClassifyLogin(reply)
}
