package doctor

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

const (
	askLimit   = 2 * time.Second // for one reply
	tripsLimit = 3 * time.Second // for all measured round trips
)

// server has what one server reports about its state.
type server struct {
	addr string
	ask  Ask
	err  error // the error of the first command without a reply; no more commands are sent after it

	absent  map[string]bool   // the commands that the server does not have, in lower case
	info    map[string]string // the reply to INFO; nil if the server has not sent this reply
	config  map[string]string // the replies to CONFIG GET, for the names that the function settings returns
	cluster map[string]string // the reply to CLUSTER INFO
	slow    slowest

	leaving, arriving int // slots that migrate

	sentinels int             // how many Sentinels are subscribed at this server; 0 if unknown
	clock     *clock          // nil if the server has not reported its time
	trips     []time.Duration // the measured round trips, the shortest first
}

// readServers asks all servers, at the same time. It fails if no server replies. A refusal
// counts as a reply.
func (e *exam) readServers(ctx context.Context) error {
	var asks map[string]Ask
	var err error
	if asker, ok := e.conn.(Asker); ok {
		asks, err = asker.Servers(ctx)
	}
	switch {
	case err != nil:
		return err
	case len(asks) == 0:
		return e.readServerInfo(ctx)
	}
	seen := map[string]bool{}
	for _, s := range examineAll(asks, func(addr string, ask Ask) *server {
		s := &server{addr: addr, ask: ask}
		s.examine(ctx, e.options.Trips)
		return s
	}) {
		err = cmp.Or(err, s.err)
		if id := s.info["run_id"]; id == "" || !seen[id] { // a server may have two addresses
			seen[id] = true
			e.servers = append(e.servers, s)
		}
	}
	if slices.ContainsFunc(e.servers, func(s *server) bool { return s.err == nil }) {
		return nil
	}
	return err
}

// examineAll examines all servers at the same time, and returns the results, sorted by address.
func examineAll[T any](asks map[string]Ask, examine func(addr string, ask Ask) T) []T {
	var all sync.WaitGroup
	addrs := slices.Sorted(maps.Keys(asks))
	results := make([]T, len(addrs))
	for i, addr := range addrs {
		all.Go(func() { results[i] = examine(addr, asks[addr]) })
	}
	all.Wait()
	return results
}

// readServerInfo reads the ServerInfo of a Conn that is no Asker.
func (e *exam) readServerInfo(ctx context.Context) error {
	about, err := e.conn.Server(ctx)
	s := &server{info: map[string]string{
		"redis_version": about.Version, "run_id": about.RunID,
		"role": about.Role, "maxmemory_policy": about.EvictionPolicy,
	}}
	maps.DeleteFunc(s.info, func(_, value string) bool { return value == "" })
	if about.Cluster {
		s.info["cluster_enabled"] = "1"
	}
	e.servers = []*server{s}
	return err
}

func (s *server) examine(ctx context.Context, trips int) {
	if text, ok := s.question(ctx, "INFO").(string); ok {
		s.info = parseInfo(text)
	}
	s.readConfig(ctx)
	if s.isCluster() {
		text, _ := s.question(ctx, "CLUSTER", "INFO").(string)
		s.cluster = parseInfo(text)
		text, _ = s.question(ctx, "CLUSTER", "NODES").(string)
		s.leaving, s.arriving = parseMigrating(text)
	} else if counts, ok := s.question(ctx, "PUBSUB", "NUMSUB", "__sentinel__:hello").([]any); ok {
		s.sentinels = int(numberIn(counts, 1))
	}
	s.readClock(ctx)
	now := time.Now()
	if s.clock != nil {
		now = now.Add(s.clock.ahead)
	}
	s.slow = parseSlowLog(s.question(ctx, "SLOWLOG", "GET", "32"), now)
	s.timeTrips(ctx, trips)
}

// question sends one command, and returns nil if there is no reply or an error reply. After a
// missing reply, the server gets no more commands.
func (s *server) question(ctx context.Context, command ...string) any {
	if s.err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	result := s.ask(ctx, command...)
	switch {
	case result.Err == nil:
		return result.Value
	case wire.Means(result.Err, wire.MeansNoCommand):
		if s.absent == nil {
			s.absent = map[string]bool{}
		}
		s.absent[strings.ToLower(command[0])] = true
	case !errors.As(result.Err, new(*redishold.ReplyError)):
		s.err = result.Err
	}
	return nil
}

// settings returns the names for CONFIG GET. Each name is sent in a command of its own, because
// older servers do not accept lists, and the reply to a pattern could have a password.
func settings() []string {
	return []string{
		"appendfsync", "save", "stop-writes-on-bgsave-error",
		"min-replicas-to-write", "min-replicas-max-lag",
		"cluster-require-full-coverage", "cluster-node-timeout",
		"client-output-buffer-limit", "busy-reply-threshold", "lua-time-limit",
	}
}

func (s *server) readConfig(ctx context.Context) {
	s.config = map[string]string{}
	for _, name := range settings() {
		answer := s.question(ctx, "CONFIG", "GET", name)
		if answer == nil {
			return // the server would refuse the other names, too
		}
		if value, ok := pairs(answer)[name]; ok {
			s.config[name] = value
		}
	}
}

// clock is how far the clock of a server is ahead of the local one. The error of `ahead` is at
// most `bound`.
type clock struct{ ahead, bound time.Duration }

// readClock compares the clock of the server with the local clock. The server reads its clock
// at an unknown time during a round trip. So readClock makes a few round trips, and uses the
// shortest.
func (s *server) readClock(ctx context.Context) {
	for range 5 {
		start := time.Now()
		answer, _ := s.question(ctx, "TIME").([]any)
		trip := time.Since(start)
		if len(answer) != 2 {
			return
		}
		if s.clock == nil || trip/2 < s.clock.bound {
			theirs := time.Unix(numberIn(answer, 0), numberIn(answer, 1)*1000)
			// Round removes the monotonic time, which Sub would use.
			s.clock = &clock{theirs.Sub(start.Add(trip / 2).Round(0)), trip / 2}
		}
	}
}

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

func (s *server) shards() bool {
	r, ok := parseRelease(s.info["redis_version"])
	return ok && r[0] >= 7
}

// role returns "master", "replica", or "" if the role is not known.
func (s *server) role() string {
	if s.info["role"] == "slave" {
		return "replica"
	}
	return s.info["role"]
}

func (s *server) replicas() int64 {
	n, _ := number(s.info, "connected_slaves")
	return n
}

func (s *server) version() string {
	if v := s.info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	if v := s.info["redis_version"]; v != "" {
		return "Redis " + v
	}
	return ""
}
