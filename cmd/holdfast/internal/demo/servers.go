package demo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/standin"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold"
)

// prefix begins the names of all keys of the page. Its hash tag keeps them in one slot of a
// cluster, which then has one counter of tokens for them.
const prefix = "{holdfast-demo}:"

// tokenCounter is the key of the fencing tokens, see docs/redis.md. A program in production
// keeps it forever. Here it expires, and begins again at the clock of the server.
const tokenCounter = prefix + "holdfast:token"

var errCut = errors.New("the network is cut")

// network is a connection that can be cut: then each new command fails. A command that was
// sent before still gets its answer.
type network struct {
	redishold.Conn
	cut *atomic.Bool
}

// Do runs calls. While the network is cut, each result has errCut.
func (n network) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	if !n.cut.Load() {
		return n.Conn.Do(ctx, calls...)
	}
	results := make([]redishold.Result, len(calls))
	for i := range results {
		results[i].Err = errCut
	}
	return results
}

// server is one Redis of the page.
type server struct {
	access  access.Access
	backend *redishold.Backend
	shop    *shop
	Name    string          // its URL without the password
	StandIn *standin.Server // nil for a server that was given
	Cut     atomic.Bool     // the workers of Redlock are cut off from it
}

// servers are all of them; the first has the locks that the dashboard shows.
type servers []*server

// openServers connects to the servers that were given, and to stand-ins that make them three.
func openServers(ctx context.Context, given []access.Access) (all servers, err error) {
	defer func() {
		if err != nil {
			all.close()
		}
	}()
	for n := 0; n < max(len(given), 3); n++ {
		s := &server{}
		all = append(all, s)
		if n < len(given) {
			s.access, s.Name = given[n], redisurl.Redacted(given[n].URL)
		} else {
			if s.StandIn, err = standin.Start(); err != nil {
				return all, err
			}
			s.access.URL, s.Name = s.StandIn.URL(), s.StandIn.URL()
		}
		if s.shop, err = openShop(ctx, s.access, keys{Prefix: prefix}); err != nil {
			return all, fmt.Errorf("%s: %w", s.Name, err)
		}
		s.backend = redishold.New(s.shop.conn, &redishold.Options{KeyPrefix: prefix})
	}
	return all, nil
}

func (all servers) close() {
	for _, s := range all {
		if s.shop != nil {
			s.shop.close()
		}
		if s.StandIn != nil {
			s.StandIn.Close()
		}
	}
}
