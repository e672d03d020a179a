package demo

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/standin"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// prefix begins the names of all keys of the page. Its hash tag keeps these keys in one slot
// of a cluster, where they share one counter of tokens.
const prefix = "{holdfast-demo}:"

// server is one Redis of the demo.
type server struct {
	access  open.Access
	conn    *rueidisconn.Conn
	backend *redishold.Backend // of the locks; only the page uses it
	shop    *shop
	Name    string          // its URL without the password
	StandIn *standin.Server // nil if the user gave the server
	Cut     atomic.Bool     // the workers of Redlock are cut off from it
}

// openServer connects to the Redis of the parameter `a`. If `a` has no URL, openServer starts
// a stand-in and connects to it.
func openServer(ctx context.Context, a open.Access, k keys) (s *server, err error) {
	s = &server{access: a}
	if a.URL == "" {
		if s.StandIn, err = standin.Start(); err != nil {
			return nil, err
		}
		s.access.URL = s.StandIn.URL()
	}
	s.Name = redisurl.Redacted(s.access.URL)
	if s.conn, err = s.access.Connect(ctx); err != nil {
		s.close()
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	s.shop = newShop(s.conn, k)
	return s, nil
}

// String returns the address of the server, for people. It also says whether the server is a
// stand-in.
func (s *server) String() string {
	if s.StandIn != nil {
		return s.Name + " (" + standin.Banner + ")"
	}
	return s.Name
}

func (s *server) close() {
	if s.conn != nil {
		s.conn.Close()
	}
	if s.StandIn != nil {
		s.StandIn.Close()
	}
}

// servers are the servers of the page. The first one has the locks that the dashboard shows.
type servers []*server

// openServers connects to the given servers. If there are fewer than three, it also starts
// stand-ins, until there are three.
func openServers(ctx context.Context, given []open.Access) (all servers, err error) {
	for len(given) < 3 {
		given = append(given, open.Access{})
	}
	for _, a := range given {
		s, err := openServer(ctx, a, keys{prefix, pageLock})
		if err != nil {
			all.close()
			return nil, err
		}
		s.backend = redishold.New(s.conn, &redishold.Options{KeyPrefix: prefix})
		all = append(all, s)
	}
	return all, nil
}

func (all servers) close() {
	for _, s := range all {
		s.close()
	}
}

// NoMajority reports whether so many servers are cut off that no worker can get a majority.
func (all servers) NoMajority() bool {
	cut := 0
	for _, s := range all {
		if s.Cut.Load() {
			cut++
		}
	}
	return 2*cut > len(all)
}
