package goredisconn

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"
)

// topologies answers look after look from a list, the last time and again.
type topologies struct {
	cluster
	masters []int
	looks   int
}

func (c *topologies) ForEachMaster(ctx context.Context, fn func(context.Context, *redis.Client) error) error {
	c.looks++
	found := c.masters[0]
	if len(c.masters) > 1 {
		c.masters = c.masters[1:]
	}
	for range found {
		if err := fn(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// A node that has left the cluster knows no masters, and is not believed.
func TestDoubtOutlastsNodesThatHaveLeft(t *testing.T) {
	for _, tt := range []struct {
		name    string
		masters []int
		want    int
	}{
		{"all well", []int{3}, 1},
		{"one has left", []int{0, 3}, 2},
		{"asked twice", []int{0, 0, 3}, 3},
		{"no cluster any more", []int{0}, askMost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &topologies{masters: tt.masters}
				(&nodes{client: client}).Doubt()
				synctest.Wait()
				if client.looks != tt.want {
					t.Errorf("got %d looks, want %d", client.looks, tt.want)
				}
			})
		})
	}
}
