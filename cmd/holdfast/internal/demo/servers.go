package demo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
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
	backend *redishold.Backend // the backend of the locks; only the page uses it
	shop    *shop
	Name    string      // its URL without the password
	StandIn *StandIn    // nil if the user gave the server
	Cut     atomic.Bool // the workers of Redlock are cut off from it
}

// openServer connects to the Redis of the parameter `a`. If `a` has no URL, openServer starts
// a stand-in and connects to it.
func openServer(ctx context.Context, a open.Access, k keys) (s *server, err error) {
	s = &server{access: a}
	if a.URL == "" {
		if s.StandIn, err = StartStandIn(); err != nil {
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
		return s.Name + " (" + StandInBanner + ")"
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

// StandInBanner says for users what kind of server a StandIn is.
const StandInBanner = "in-process Redis stand-in, not for production"

// tick is the time between two advances of the stand-in's clock. A key expires up to a tick
// late, or early if it was set between two ticks. So a tick must be short compared with every
// lease and with the few milliseconds after which waiters poll again.
const tick = 2 * time.Millisecond

// StandIn is a running Redis stand-in inside this process, so that the demo needs no server. It
// is not for production: it keeps all data in memory, and knows only a part of Redis. Its
// method Addr returns its host and port, and Keys returns the keys of database 0.
type StandIn struct {
	*miniredis.Miniredis
	stop  context.CancelFunc
	clock sync.WaitGroup
}

// StartStandIn starts a stand-in on a free port of the loopback interface. Until Close its clock
// follows the clock of the system.
func StartStandIn() (*StandIn, error) {
	s := &StandIn{Miniredis: miniredis.NewMiniRedis()}
	if err := s.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start the Redis stand-in: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.SetTime(time.Now())
	s.clock.Go(func() { s.runClock(ctx) })
	return s, nil
}

// URL returns the address as a redis:// URL.
func (s *StandIn) URL() string { return "redis://" + s.Addr() }

// Close ends the stand-in and all its connections, and returns when all of its goroutines
// have ended. It may be called twice.
func (s *StandIn) Close() {
	s.stop()
	s.clock.Wait()
	s.Miniredis.Close()
}

// runClock advances the clock of the keys, which miniredis does not do by default. With its
// option ClockTTL miniredis reads the system's clock, but then a key may expire in the middle
// of a script, which never happens in Redis.
func (s *StandIn) runClock(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			now := time.Now()
			s.FastForward(now.Sub(last))
			s.SetTime(now)
			last = now
		}
	}
}
