package deploytest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// byRueidisWithDefaults uses a client that leaves to the library what it can.
func byRueidisWithDefaults(_ context.Context, p place) (redishold.Conn, func(), error) {
	option := rueidis.ClientOption{InitAddress: p.addrs, DisableCache: true}
	if p.topology == redistest.Sentinel {
		option.Sentinel.MasterSet = redistest.MasterName
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, nil, err
	}
	conn := rueidisconn.New(client)
	return conn, func() { conn.Close(); client.Close() }, nil
}

// The settings that TestFailOverUnderLoad finds to be good are not warned of, and
// those are with which locks are unreachable for longer.
func TestAdvice(t *testing.T) {
	for _, topology := range []redistest.Topology{redistest.Sentinel, redistest.Cluster} {
		t.Run(string(topology), func(t *testing.T) {
			p := at(redistest.StartDeployment(t, topology))
			clients := ways()
			clients["go-redis client with its defaults"] = byGoRedisWithDefaults
			clients["rueidis client with its defaults"] = byRueidisWithDefaults
			for client, w := range clients {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				conn, shut, err := w(ctx, p)
				cancel()
				if err != nil {
					t.Fatal(err)
				}
				want := client == "rueidis client with its defaults" ||
					client == "go-redis client with its defaults" && topology == redistest.Sentinel
				if advice := conn.(redishold.Adviser).Advice(); (advice != nil) != want {
					t.Errorf("%s: got %+v, want advice: %v", client, advice, want)
				}
				shut()
			}
		})
	}
}
