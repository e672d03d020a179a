package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// twoNodes is a cluster of two nodes. The first one is the master of all slots, and hangs at
// the first script. The second one is the master after it is elected, and runs scripts.
type twoNodes struct {
	first, second string
	elected       atomic.Bool
}

func startTwoNodes(t *testing.T) *twoNodes {
	t.Helper()
	c := &twoNodes{}
	over := make(chan struct{})
	c.second = serve(t, nil, func(command string) string { return c.say(command, ":2\r\n") })
	c.first = serve(t, nil, func(command string) string {
		if strings.HasPrefix(command, "EVAL") {
			<-over
		}
		return c.say(command, ":1\r\n")
	})
	t.Cleanup(func() { close(over) }) // before the servers end
	return c
}

func (c *twoNodes) say(command, value string) string {
	switch {
	case strings.HasPrefix(command, "HELLO"):
		return hello("cluster")
	case command == "CLUSTER SLOTS":
		master, replica := c.first, c.second
		if c.elected.Load() {
			master, replica = replica, master
		}
		return "*1\r\n*4\r\n:0\r\n:16383\r\n" + nodeOf(master) + nodeOf(replica)
	case strings.HasPrefix(command, "EVAL"):
		return value
	}
	return ""
}

func nodeOf(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf("*3\r\n%s:%s\r\n%s", bulk(host), port, bulk(addr))
}

// A call to a node that hangs ends soon after another node has its slots, and the next call
// goes there. rueidis alone ends the call only after a PING without a reply, and refreshes
// the slots one or two seconds later.
func TestCallEndsWithItsNode(t *testing.T) {
	c := startTwoNodes(t)
	// One address: of two, rueidis may drop a connection, and a goroutine for 5 s.
	conn, err := Open(t.Context(), "redis+cluster://"+c.second, &Options{PingTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := redishold.Call{Script: redishold.NewScript("return 1", ""), Keys: []string{"k"}}
	hung, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := conn.DoOne(hung, &call).Err; !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got error %v from a node that hangs", err)
	}
	time.AfterFunc(200*time.Millisecond, func() { c.elected.Store(true) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := conn.DoOne(ctx, &call).Err; err == nil || ctx.Err() != nil {
		t.Errorf("got error %v, want one before the context ends", err)
	}
	if r := conn.DoOne(ctx, &call); r.Err != nil || r.Value != int64(2) {
		t.Errorf("got %v, error %v from the new master, want 2", r.Value, r.Err)
	}
	if rs := conn.Do(ctx, call, call); rs[0].Value != int64(2) || rs[1].Value != int64(2) {
		t.Errorf("got %v from the new master, want 2 twice", rs)
	}
}
