package goredisconn

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// topologies replies to each poll with the next view of a list, and always with the last one
// at its end.
type topologies struct {
	cluster

	mu    sync.Mutex
	polls int
	known []view
}

// view is the reply of a node.
type view struct {
	masters []*redis.Client
	silent  bool // the node does not reply
	err     error
}

func (c *topologies) ForEachMaster(ctx context.Context, fn func(context.Context, *redis.Client) error) error {
	c.mu.Lock()
	c.polls++
	v := c.known[0]
	if len(c.known) > 1 {
		c.known = c.known[1:]
	}
	c.mu.Unlock()
	if v.silent {
		time.Sleep(time.Minute) // as a client that does not honour contexts
	}
	for _, master := range v.masters {
		if err := fn(ctx, master); err != nil {
			return err
		}
	}
	return v.err
}

func (c *topologies) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.polls
}

// mastersAt returns clients that are never used.
func mastersAt(t *testing.T, addrs ...string) []*redis.Client {
	var clients []*redis.Client
	for _, addr := range addrs {
		client := redis.NewClient(&redis.Options{Addr: addr, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
		t.Cleanup(func() { _ = client.Close() })
		clients = append(clients, client)
	}
	return clients
}

// A node that has left the cluster knows no masters, and its reply is not used.
func TestReviewOutlastsNodesThatHaveLeft(t *testing.T) {
	there, left := view{masters: mastersAt(t, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")}, view{}
	for _, tt := range []struct {
		name  string
		known []view
		want  int
	}{
		{"all well", []view{there}, 1},
		{"one has left", []view{left, there}, 2},
		{"asked twice", []view{left, left, there}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &topologies{known: tt.known}
				newNodes(client).Review()
				synctest.Wait()
				if got := client.count(); got != tt.want {
					t.Errorf("%d nodes were asked, want %d", got, tt.want)
				}
			})
		})
	}
}

// If go-redis first asks the nodes of a lost machine, each for as long as its ReadTimeout, other
// nodes are asked meanwhile.
func TestPollDoesNotWaitForSilentNodes(t *testing.T) {
	there, silent := view{masters: mastersAt(t, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")}, view{silent: true}
	synctest.Test(t, func(t *testing.T) {
		client := &topologies{known: []view{silent, silent, silent, there}}
		n := newNodes(client)
		began := time.Now()
		masters, err := n.find()
		if took := time.Since(began); len(masters) != 3 || err != nil || took > 4*hedgeAfter {
			t.Errorf("got %v, %v after %v, want three masters within %v", masters, err, took, 4*hedgeAfter)
		}
		time.Sleep(2 * time.Minute) // for the silent ones
	})
}

// At most maxUnanswered nodes are asked while no node replies.
func TestPollsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &topologies{known: []view{{silent: true}}}
		n := newNodes(client)
		for range 20 {
			n.Suspect()
			time.Sleep(pollEvery)
		}
		if got := client.count(); got != maxUnanswered {
			t.Errorf("%d nodes were asked, want %d", got, maxUnanswered)
		}
		time.Sleep(10 * time.Minute)
	})
}

// After a call without a reply, go-redis polls for as long as the next call may take, and
// waiters are notified of a new master.
func TestPollsLastUntilTheFailover(t *testing.T) {
	before, after := view{masters: mastersAt(t, "127.0.0.1:1", "127.0.0.1:2")}, view{masters: mastersAt(t, "127.0.0.1:2", "127.0.0.1:3")}
	synctest.Test(t, func(t *testing.T) {
		var known []view
		for range 12 {
			known = append(known, before)
		}
		client := &topologies{known: append(known, after)}
		n := newNodes(client)
		if n.Changed() != nil {
			t.Error("a poll is planned before Suspect")
		}
		n.Suspect()
		synctest.Wait() // the first poll finds the masters of before
		began, changed := time.Now(), n.Changed()
		select {
		case <-changed:
		case <-time.After(pollFor):
			t.Fatal("the failover was not reported")
		}
		if took := time.Since(began); took != 12*pollEvery {
			t.Errorf("it was found after %v, want %v", took, 12*pollEvery)
		}
		time.Sleep(pollFor + pollEvery)
		if n.Changed() != nil {
			t.Error("the polls do not end")
		}
	})
}

// A closed client ends the polls.
func TestPollsEndWithTheirClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(&topologies{known: []view{{err: redis.ErrClosed}}})
		n.Suspect()
		synctest.Wait()
		if n.Changed() != nil {
			t.Error("the polls go on with a closed client")
		}
	})
}
