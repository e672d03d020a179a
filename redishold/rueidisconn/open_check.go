package rueidisconn

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// check returns an error if the servers are not of the deployment in the URL, or do not
// respond. Without this check, every call of Lock would wait until its context ends.
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

// checkCluster sends a PING to the nodes of three slots that are far from each other. One reply
// is enough, because another part of the cluster may be down only for a while. A PING needs no
// permission for a key.
func (t *target) checkCluster(ctx context.Context, client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, t.option.Dialer.Timeout)
	defer cancel()
	keys := [...]string{"a", "b", "c"} // of the slots 15495, 3300 and 7365
	answers := make(chan error, len(keys))
	for _, key := range keys {
		// If the context of a call ends, rueidis also ends the handshake of a connection that
		// other calls wait for. So these calls have a context that does not end. They end when
		// the connection is made or fails.
		go func() {
			answers <- client.Do(context.WithoutCancel(ctx), client.B().Arbitrary("PING").Keys(key).Build().ToPipe()).Error()
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
		if failure == nil || errors.Is(failure, rueidis.ErrNoSlot) { // another error says more than ErrNoSlot: maybe only one slot is without a node
			failure = err
		}
	}
	if errors.Is(failure, rueidis.ErrNoSlot) || len(client.Nodes()) == 0 {
		return errors.New("the cluster is not formed: no node serves any slot")
	}
	return failure
}

// checkServer returns an error if the reply to HELLO shows that the server is a Sentinel or a
// node of a cluster. It accepts a server that does not know HELLO, because some proxies do not.
func checkServer(ctx context.Context, client rueidis.Client) error {
	about, err := client.Do(ctx, client.B().Arbitrary("HELLO").Build().ToPipe()).AsMap()
	if err != nil {
		return nil
	}
	mode := about["mode"]
	switch text, _ := mode.ToString(); text {
	case "sentinel":
		return misuse("the server is a Sentinel: use redis+sentinel://host:26379/NAME, with the name of the master")
	case "cluster":
		// Without the permission to ask for the slots, rueidis uses the node as a single server.
		err := client.Do(ctx, client.B().ClusterSlots().Build().ToPipe()).Error()
		if isNoPerm(err) {
			return err
		}
		return misuse("the server is a node of a cluster, but it does not report the slots of the cluster")
	}
	return nil
}

// isNoPerm reports whether err is the reply that the user has no permission for a command.
func isNoPerm(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(reply.Error(), "NOPERM")
}
