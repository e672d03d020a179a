package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

const (
	askLimit   = 2 * time.Second // for one answer
	tripsLimit = 3 * time.Second // for all round trips that are timed
)

// server is what one server said of itself.
type server struct {
	addr string
	ask  Ask
	err  error // it could not be asked, or fell silent

	info    map[string]string // INFO; nil if it does not tell
	config  map[string]string // CONFIG GET, of what matters
	cluster map[string]string // CLUSTER INFO
	slots   slotMoves
	slow    slowest
	refused []string // commands that it refused

	watchers int // Sentinels that listen; -1 if it does not tell

	clock    clock
	clockErr error
	trips    []time.Duration // sorted
}

// visit asks all servers, side by side. It fails if none of them answers. That
// one refuses to tell what it is, is an answer.
func (e *exam) visit(ctx context.Context) error {
	asks, err := serversOf(ctx, e.conn)
	if err != nil {
		return err
	}
	if len(asks) == 0 {
		s, err := hearsay(ctx, e.conn)
		e.servers = []*server{s}
		return err
	}
	var all sync.WaitGroup
	for _, addr := range slices.Sorted(maps.Keys(asks)) {
		s := &server{addr: addr, ask: asks[addr], watchers: -1}
		e.servers = append(e.servers, s)
		all.Go(func() { s.examine(ctx, e.options.Trips) })
	}
	all.Wait()
	e.servers = once(e.servers)
	for _, s := range e.servers {
		if s.err == nil {
			return nil
		}
	}
	return e.servers[0].err
}

func serversOf(ctx context.Context, conn redishold.Conn) (map[string]Ask, error) {
	asker, ok := conn.(Asker)
	if !ok {
		return nil, nil
	}
	return asker.Servers(ctx)
}

// hearsay is what a Conn tells of a server that cannot be asked directly.
func hearsay(ctx context.Context, conn redishold.Conn) (*server, error) {
	about, err := conn.Server(ctx)
	s := &server{watchers: -1, clockErr: errNoTime, info: map[string]string{}}
	for field, value := range map[string]string{
		"redis_version": about.Version, "run_id": about.RunID,
		"role": about.Role, "maxmemory_policy": about.EvictionPolicy,
	} {
		if value != "" {
			s.info[field] = value
		}
	}
	if about.Cluster {
		s.info["cluster_enabled"] = "1"
	}
	return s, err
}

var errNoTime = errors.New("TIME was not answered")

// once leaves out a server that is known by two addresses.
func once(servers []*server) []*server {
	seen := map[string]bool{}
	return slices.DeleteFunc(servers, func(s *server) bool {
		id := s.info["run_id"]
		known := id != "" && seen[id]
		seen[id] = true
		return known
	})
}

// examine asks s all questions, unless it falls silent.
func (s *server) examine(ctx context.Context, trips int) {
	if text, ok := s.question(ctx, "INFO").(string); ok {
		s.info = parseInfo(text)
	}
	s.readConfig(ctx)
	if s.isCluster() {
		text, _ := s.question(ctx, "CLUSTER", "INFO").(string)
		s.cluster = parseInfo(text)
		text, _ = s.question(ctx, "CLUSTER", "NODES").(string)
		s.slots = parseMoves(text)
	} else if counts, ok := s.question(ctx, "PUBSUB", "NUMSUB", "__sentinel__:hello").([]any); ok {
		s.watchers = int(numberIn(counts, 1))
	}
	s.readClock(ctx)
	s.slow = parseSlowLog(s.question(ctx, "SLOWLOG", "GET", "32"), time.Now().Add(s.clock.ahead))
	s.timeTrips(ctx, trips)
}

// question returns the answer to a command, nil if there is none. A server that
// refuses is asked the next one; one that is silent is left alone.
func (s *server) question(ctx context.Context, command ...string) any {
	if s.err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	result := s.ask(ctx, command...)
	var reply *redishold.ReplyError
	switch {
	case errors.As(result.Err, &reply):
		s.refused = append(s.refused, strings.ToLower(command[0]))
		return nil
	case result.Err != nil:
		s.err = result.Err
		return nil
	}
	return result.Value
}

// settings are what CONFIG is asked for, one by one: older servers take no lists,
// and a pattern could answer with a password.
func settings() []string {
	return []string{
		"maxmemory", "maxmemory-policy", "maxclients",
		"appendonly", "appendfsync", "save", "stop-writes-on-bgsave-error",
		"min-replicas-to-write", "min-replicas-max-lag",
		"cluster-require-full-coverage", "cluster-node-timeout",
		"timeout", "tcp-keepalive", "client-output-buffer-limit",
		"busy-reply-threshold", "lua-time-limit", "notify-keyspace-events",
	}
}

// readConfig reads the settings. After a refusal the others need no asking.
func (s *server) readConfig(ctx context.Context) {
	s.config = map[string]string{}
	before := len(s.refused)
	for _, name := range settings() {
		answer := s.question(ctx, "CONFIG", "GET", name)
		if len(s.refused) > before || s.err != nil {
			return
		}
		if value, ok := pairs(answer)[name]; ok {
			s.config[name] = value
		}
	}
}

// clock is how far a server's clock is ahead, give or take Bound.
type clock struct{ ahead, bound time.Duration }

// readClock compares the clocks, over the quickest of a few round trips: the
// server read its clock somewhere between question and answer.
func (s *server) readClock(ctx context.Context) {
	best := clock{bound: -1}
	for range 5 {
		start := time.Now()
		answer, _ := s.question(ctx, "TIME").([]any)
		trip := time.Since(start)
		if len(answer) != 2 {
			s.clockErr = errNoTime
			return
		}
		if best.bound < 0 || trip/2 < best.bound {
			theirs := time.Unix(numberIn(answer, 0), numberIn(answer, 1)*1000)
			// Without Round the difference would be taken of monotonic times too.
			best = clock{theirs.Sub(start.Add(trip / 2).Round(0)), trip / 2}
		}
	}
	s.clock = best
}

// timeTrips times round trips, one after the other.
func (s *server) timeTrips(ctx context.Context, most int) {
	begun := time.Now()
	for len(s.trips) < most && time.Since(begun) < tripsLimit {
		start := time.Now()
		if s.question(ctx, "PING") == nil {
			break
		}
		s.trips = append(s.trips, time.Since(start))
	}
	slices.Sort(s.trips)
}

func (s *server) isCluster() bool {
	return s.info["cluster_enabled"] == "1" || s.info["redis_mode"] == "cluster" || s.info["server_mode"] == "cluster"
}

// shards reports that s has sharded channels.
func (s *server) shards() bool {
	r, ok := parseRelease(s.info["redis_version"])
	return ok && !r.before(7, 0)
}

// role is "master", "replica", or "" if it is not known.
func (s *server) role() string {
	if role := s.info["role"]; role != "slave" {
		return role
	}
	return "replica"
}

// replicas is how many are connected.
func (s *server) replicas() int64 {
	n, _ := s.count("connected_slaves")
	return n
}

// version is the name of the program and its version.
func (s *server) version() string {
	if v := s.info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	if v := s.info["redis_version"]; v != "" {
		return "Redis " + v
	}
	return ""
}

// count returns a number of INFO.
func (s *server) count(field string) (int64, bool) {
	n, err := strconv.ParseInt(s.info[field], 10, 64)
	return n, err == nil
}

// setting returns a number of CONFIG.
func (s *server) setting(name string) (int64, bool) {
	n, err := strconv.ParseInt(s.config[name], 10, 64)
	return n, err == nil
}
