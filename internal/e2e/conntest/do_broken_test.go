package conntest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
)

// Batches of go-redis that break off at the worst moment. The server is a fake:
// a real one cannot be made to stop between two scripts of a pipeline.

// fake is a server of which each command does what a test says, and counts the
// scripts that it has read.
type fake struct {
	*server.Server
	read atomic.Int64
}

// startFake starts one where act answers EVALSHA; everything else is OK or unknown.
func startFake(t *testing.T, act func(s *fake, c *server.Peer)) *fake {
	t.Helper()
	listening, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(listening.Close)
	s := &fake{Server: listening}
	s.SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		switch strings.ToLower(cmd) {
		case "evalsha":
			s.read.Add(1)
			act(s, c)
		case "hello":
			c.WriteError("ERR unknown command")
		case "asking": // answered with the script, as it were
		default:
			c.WriteOK()
		}
		return true
	})
	return s
}

func (s *fake) addr() string { return s.Addr().String() }

// oneNode is a cluster client whose slots are all at addr.
func oneNode(t *testing.T, addr string, change func(*redis.ClusterOptions)) redishold.Conn {
	t.Helper()
	o := &redis.ClusterOptions{
		Addrs: []string{addr}, Protocol: 2, DisableIdentity: true, DialerRetries: 1,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		},
	}
	if change != nil {
		change(o)
	}
	client := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return goredisconn.New(client)
}

var one = redishold.NewScript("one", "return 1")

func twoCalls(replicas int) []redishold.Call {
	return []redishold.Call{
		{Script: one, Keys: []string{"{a}1"}, Replicas: replicas},
		{Script: one, Keys: []string{"{a}2"}, Replicas: replicas},
	}
}

// A script that a server has read may have been executed, whatever an earlier
// attempt was answered.
func TestRedirectedThenBrokenIsUnknown(t *testing.T) {
	for _, kind := range []string{"MOVED", "ASK"} {
		t.Run(kind, func(t *testing.T) {
			second := startFake(t, func(s *fake, c *server.Peer) {
				if s.read.Load() == 2 {
					c.Close() // without an answer to either
				}
			})
			first := startFake(t, func(_ *fake, c *server.Peer) { c.WriteError(fmt.Sprintf("%s 1 %s", kind, second.addr())) })
			for i, r := range oneNode(t, first.addr(), nil).Do(bounded(t), twoCalls(0)...) {
				if r.Err == nil || errors.Is(r.Err, driver.ErrNotExecuted) || errors.As(r.Err, new(*redishold.ReplyError)) {
					t.Errorf("call %d: got value %v, error %v; want an error that says nothing of execution", i, r.Value, r.Err)
				}
			}
			if got := second.read.Load(); got != 2 {
				t.Errorf("the second server read %d scripts, want 2", got)
			}
		})
	}
}

// So it is after a connection that was refused at first.
func TestRefusedThenBrokenIsUnknown(t *testing.T) {
	s := startFake(t, func(s *fake, c *server.Peer) {
		if s.read.Load() == 2 {
			c.Close()
		}
	})
	var dials atomic.Int64
	conn := oneNode(t, s.addr(), func(o *redis.ClusterOptions) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) == 1 {
				return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	})
	for s.read.Load() == 0 && dials.Load() < 5 { // a call that ends at the refusal was not sent
		for i, r := range conn.Do(bounded(t), twoCalls(0)...) {
			if sent := s.read.Load() > 0; errors.Is(r.Err, driver.ErrNotExecuted) == sent || r.Err == nil {
				t.Errorf("call %d: got error %v after the server read %d scripts", i, r.Err, s.read.Load())
			}
		}
	}
	if got := s.read.Load(); got != 2 {
		t.Errorf("the server read %d scripts, want 2", got)
	}
}

// A refused handshake is an answer to every call of a pipeline.
func TestRefusedHandshakeIsEveryCallsAnswer(t *testing.T) {
	s := startFake(t, func(_ *fake, c *server.Peer) { c.WriteInt(1) })
	s.SetPreHook(func(c *server.Peer, _ string, _ ...string) bool {
		c.WriteError("WRONGPASS invalid username-password pair or user is disabled.")
		return true
	})
	client := redis.NewClient(&redis.Options{Addr: s.addr(), Password: "x", DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	for _, replicas := range []int{0, 1} {
		for i, r := range goredisconn.New(client).Do(bounded(t), twoCalls(replicas)...) {
			var reply *redishold.ReplyError
			if !errors.As(r.Err, &reply) || !strings.HasPrefix(reply.Text, "WRONGPASS") {
				t.Errorf("replicas %d, call %d: got %v, %v, want WRONGPASS", replicas, i, r.Value, r.Err)
			}
		}
	}
}

// A redirection is followed also where the client asks for notifications of
// maintenance, whose handlers go-redis takes only once.
func TestRedirectedWithMaintenanceNotifications(t *testing.T) {
	answering := func(evalsha func(c *server.Peer)) *fake {
		s := startFake(t, nil)
		s.SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			switch strings.ToLower(cmd) {
			case "hello":
				c.WriteRaw("%1\r\n$5\r\nproto\r\n:3\r\n")
			case "evalsha":
				evalsha(c)
			case "wait":
				c.WriteInt(1)
			default:
				c.WriteOK()
			}
			return true
		})
		return s
	}
	second := answering(func(c *server.Peer) { c.WriteInt(1) })
	first := answering(func(c *server.Peer) { c.WriteError("MOVED 1 " + second.addr()) })
	conn := oneNode(t, first.addr(), func(o *redis.ClusterOptions) {
		o.Protocol = 3
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeEnabled}
	})
	for i, r := range conn.Do(bounded(t), twoCalls(1)...) {
		if r.Err != nil || r.Value != int64(1) {
			t.Errorf("call %d: got %v, %v, want 1", i, r.Value, r.Err)
		}
	}
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	t.Cleanup(cancel)
	return ctx
}
