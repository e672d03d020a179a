package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold"
)

// asked is the reply of a Sentinel.
type asked struct {
	sentinel string // its address
	master   string // the address of the master
	err      error
}

// askSentinels asks all Sentinels at the same time for the master, and returns the first reply
// with a master. rueidis would also ask them, but the errors of rueidis do not name the
// Sentinel.
func (t *target) askSentinels(ctx context.Context) (asked, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan asked, len(t.Addrs))
	for _, addr := range t.Addrs {
		go func() { answers <- t.ask(ctx, addr) }() // ends with ctx
	}
	var worst asked
	for range t.Addrs {
		a := <-answers
		if a.err == nil {
			return a, nil
		}
		if worst.err == nil || weight(a.err) > weight(worst.err) {
			worst = a
		}
	}
	return asked{}, worst.err
}

// weight orders errors: the one with the highest weight explains most.
func weight(err error) int {
	switch {
	case errors.As(err, new(misuse)):
		return 2
	case errors.As(err, new(*redishold.ReplyError)):
		return 1
	default:
		return 0
	}
}

// ask asks one Sentinel for the master, over a connection that ends with ctx.
func (t *target) ask(ctx context.Context, addr string) asked {
	client, err := rueidis.NewClient(t.sentinelOption(ctx, addr))
	if err != nil {
		return asked{err: t.askFailed(ctx, addr, err)}
	}
	defer client.Close()
	get := client.B().SentinelGetMasterAddrByName().Master(t.Master).Build()
	host, err := client.Do(ctx, get).AsStrSlice()
	if err != nil || len(host) != 2 {
		return asked{err: t.askFailed(ctx, addr, err)}
	}
	return asked{sentinel: addr, master: net.JoinHostPort(host[0], host[1])}
}

// askFailed returns the error for a Sentinel that did not name the master. The error names a
// probable cause, if there is one.
func (t *target) askFailed(ctx context.Context, addr string, err error) error {
	where := "redis Sentinel at " + addr
	reply, refused := rueidis.IsRedisErr(err)
	switch {
	case err == nil || rueidis.IsRedisNil(err):
		return t.failed(ctx, where, misuse(fmt.Sprintf("it knows no master %q", t.Master)))
	case !refused:
		return t.failed(ctx, t.where(), err) // the other Sentinels probably cause the same error
	case strings.Contains(reply.Error(), "unknown command"):
		return t.failed(ctx, where, misuse("the server is no Sentinel: name the Sentinels, port 26379, or use redis://"))
	default:
		return fmt.Errorf("%w: check sentinel_username and sentinel_password; the user before the hosts is for the data nodes", t.failed(ctx, where, err))
	}
}
