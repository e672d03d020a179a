package rueidisconn

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// check finds out at once what otherwise every lock would wait for in vain.
func (t *target) check(ctx context.Context, client rueidis.Client) error {
	switch client.Mode() {
	case rueidis.ClientModeCluster:
		return t.checkCluster(ctx, client)
	case rueidis.ClientModeStandalone:
		if t.Deployment == redisurl.OnlyCluster {
			return errNoCluster
		}
		return checkServer(ctx, client)
	}
	return nil // rueidis asked the master for its role
}

// checkCluster sends something to three places of the cluster, far from each
// other. It is content with one answer: a part that is down may come back. A PING
// needs no right to a key.
func (t *target) checkCluster(ctx context.Context, client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, t.option.Dialer.Timeout)
	defer cancel()
	keys := [...]string{"a", "b", "c"} // of the slots 15495, 3300 and 7365
	answers := make(chan error, len(keys))
	for _, key := range keys {
		// The context of a call ends the handshake of a connection that it makes
		// for everybody, so these calls have none. They end when a connection is
		// there or cannot be had.
		go func() {
			answers <- client.Do(context.WithoutCancel(ctx), client.B().Arbitrary("PING").Keys(key).Build()).Error()
		}()
	}
	var failure error
	for range keys {
		var err error
		select {
		case err = <-answers:
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, replied := rueidis.IsRedisErr(err); err == nil || replied {
			return nil
		}
		if failure == nil || errors.Is(failure, rueidis.ErrNoSlot) { // a slot without a node may be one of few
			failure = err
		}
	}
	if errors.Is(failure, rueidis.ErrNoSlot) || len(client.Nodes()) == 0 {
		return errors.New("the cluster is not formed: no node serves any slot")
	}
	return failure
}

// checkServer asks a server for what it is. One that does not know HELLO, as
// some proxies, may be what it likes.
func checkServer(ctx context.Context, client rueidis.Client) error {
	about, err := client.Do(ctx, client.B().Arbitrary("HELLO").Build()).AsMap()
	if err != nil {
		return nil
	}
	mode := about["mode"]
	switch text, _ := mode.ToString(); text {
	case "sentinel":
		return misuse("the server is a Sentinel: use redis+sentinel://host:26379/NAME, with the name of the master")
	case "cluster":
		// rueidis takes it for a lone server if it may not ask for the slots.
		err := client.Do(ctx, client.B().ClusterSlots().Build()).Error()
		if reply, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(reply.Error(), "NOPERM") {
			return err
		}
		return misuse("the server is a node of a cluster that does not tell its slots")
	}
	return nil
}
