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

// topologies answers look after look from a list, the last time and again.
type topologies struct {
	cluster

	mu    sync.Mutex
	looks int
	known []view
}

// view is what a node says of the cluster.
type view struct {
	masters []*redis.Client
	silent  bool // it does not say anything, however long somebody waits
	err     error
}

func (c *topologies) ForEachMaster(ctx context.Context, fn func(context.Context, *redis.Client) error) error {
	c.mu.Lock()
	c.looks++
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
	return c.looks
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

// A node that has left the cluster knows no masters, and is not believed.
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
				newNodes(client).Review("")
				synctest.Wait()
				if got := client.count(); got != tt.want {
					t.Errorf("got %d looks, want %d", got, tt.want)
				}
			})
		})
	}
}

// A machine that is lost takes nodes with it that go-redis may ask first, each of
// them for as long as its ReadTimeout: others are asked meanwhile.
func TestLookDoesNotWaitForSilentNodes(t *testing.T) {
	there, silent := view{masters: mastersAt(t, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")}, view{silent: true}
	synctest.Test(t, func(t *testing.T) {
		client := &topologies{known: []view{silent, silent, silent, there}}
		n := newNodes(client)
		began := time.Now()
		masters, err := n.find()
		if took := time.Since(began); len(masters) != 3 || err != nil || took > 4*lookAside {
			t.Errorf("got %v, %v after %v, want three masters within %v", masters, err, took, 4*lookAside)
		}
		time.Sleep(2 * time.Minute) // for the silent ones
	})
}

// No more nodes are asked than may be silent, however long all of them are.
func TestLooksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &topologies{known: []view{{silent: true}}}
		n := newNodes(client)
		for range 20 {
			n.Suspect()
			time.Sleep(lookEvery)
		}
		if got := client.count(); got != looksMost {
			t.Errorf("%d nodes were asked, want %d", got, looksMost)
		}
		time.Sleep(10 * time.Minute)
	})
}

// A call without an answer makes go-redis look for as long as the next call may
// take, and waiters hear when there is another master.
func TestDoubtLastsUntilTheFailOver(t *testing.T) {
	before, after := view{masters: mastersAt(t, "127.0.0.1:1", "127.0.0.1:2")}, view{masters: mastersAt(t, "127.0.0.1:2", "127.0.0.1:3")}
	synctest.Test(t, func(t *testing.T) {
		var known []view
		for range 12 {
			known = append(known, before)
		}
		client := &topologies{known: append(known, after)}
		n := newNodes(client)
		if n.Changed() != nil {
			t.Error("somebody looks without a doubt")
		}
		n.Suspect()
		synctest.Wait() // the first look finds what there was
		began, changed := time.Now(), n.Changed()
		select {
		case <-changed:
		case <-time.After(lookFor):
			t.Fatal("nobody was told of the failover")
		}
		if took := time.Since(began); took != 12*lookEvery {
			t.Errorf("it was found after %v, want %v", took, 12*lookEvery)
		}
		time.Sleep(lookFor + lookEvery)
		if n.Changed() != nil {
			t.Error("the search goes on without a doubt")
		}
	})
}

// A closed client ends the search.
func TestSearchEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(&topologies{known: []view{{err: redis.ErrClosed}}})
		n.Suspect()
		synctest.Wait()
		if n.Changed() != nil {
			t.Error("the search goes on with a closed client")
		}
	})
}
