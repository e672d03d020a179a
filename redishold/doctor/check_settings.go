package doctor

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// outerChecks returns the checks that do not need the reply to INFO.
func outerChecks() []check[*server] {
	return []check[*server]{
		{"clock", checkClock, texts{
			lacks: "its time",
			right: "+time",
			why: "Leases are durations, but Redis measures them with its own wall clock. If a wrong clock is suddenly set forward, locks that are held end. " +
				"Fencing tokens stay in order after a failover only if the clocks of the servers agree.",
			remedy: "run chrony or systemd-timesyncd on the server and on this machine, so that clocks are corrected gradually; chronyc tracking shows the state",
		}},
		{"latency", checkLatency, texts{
			lacks:  "how long a round trip takes",
			right:  "+ping",
			why:    "A renewal needs a round trip. If the answer comes after the margin begins, the lock counts as lost.",
			remedy: "use a longer lease (Options.TTL, --ttl) or a server that is nearer",
		}},
		{"slow-commands", checkSlowCommands, texts{
			lacks:  "which commands were slow",
			right:  "+slowlog|get",
			fine:   "the slow log has no long command of the last hour",
			why:    "Redis runs one command at a time. During a slow command, Redis answers no renewal and no waiter.",
			remedy: "SLOWLOG GET lists slow commands; do not run KEYS, long scripts and large ranges on the server of the locks",
		}},
		{"pubsub-buffer", checkBuffer, texts{
			lacks:  "client-output-buffer-limit",
			right:  "+config|get",
			fine:   "the buffer for subscribers is large enough",
			why:    "Redis publishes releases to subscribers. If Redis disconnects a subscriber, its waiters notice a release up to a second late.",
			remedy: `CONFIG SET client-output-buffer-limit "pubsub 33554432 8388608 60"`,
		}},
		{"script-limit", checkScripts, texts{
			lacks:  "busy-reply-threshold",
			right:  "+config|get",
			fine:   "a script that hangs can be stopped in time",
			why:    "Until the server answers BUSY, nobody can use the server, not even to stop the script. Every lock can be lost.",
			remedy: "CONFIG SET busy-reply-threshold 5000 (lua-time-limit before Redis 7), or less than two thirds of the lease",
		}},
	}
}

func checkClock(_ *exam, s *server) Finding {
	if s.clock == nil {
		return unknown()
	}
	by := s.clock.ahead.Abs()
	direction := "ahead of the clock of this machine"
	if s.clock.ahead < 0 {
		direction = "behind the clock of this machine"
	}
	return saw(judge(true, by-s.clock.bound >= time.Second, Warning), "the clock of the server is %s %s (error at most %s)", short(by), direction, short(s.clock.bound))
}

func checkLatency(e *exam, s *server) Finding {
	n := len(s.trips)
	if n == 0 {
		return unknown()
	}
	margin := e.options.Margin
	at := func(percent int) time.Duration { return s.trips[min(n-1, n*percent/100)] }
	worst := s.trips[n-1]
	return saw(judge(true, worst >= margin/3, severe(at(90) >= margin/3 || worst >= margin)),
		"of %d round trips, half took less than %s, 90 %% took less than %s, and the longest took %s; a lease of %[6]s has a margin of %[5]s",
		n, short(at(50)), short(at(90)), short(worst), short(margin), short(e.options.TTL))
}

func checkSlowCommands(e *exam, s *server) Finding {
	took := s.slow.took
	margin := e.options.Margin
	return saw(judge(s.slow.known, took >= margin/3, severe(took >= margin)),
		"the command %s kept the server busy for %s, %s ago", s.slow.command, short(took), s.slow.ago.Round(time.Minute))
}

func checkBuffer(_ *exam, s *server) Finding {
	const enough = 1 << 20
	hard, soft, known := parseBufferLimit(s.config["client-output-buffer-limit"])
	narrow := hard != 0 && hard < enough || soft != 0 && soft < enough/4
	return saw(judge(known, narrow, Warning), "the buffer of a subscriber is limited to %s, and to %s for a longer time (client-output-buffer-limit)", size(hard), size(soft))
}

func checkScripts(e *exam, s *server) Finding {
	millis, ok := number(s.config, "busy-reply-threshold")
	if !ok {
		millis, ok = number(s.config, "lua-time-limit")
	}
	limit := time.Duration(millis) * time.Millisecond
	if limit <= 0 {
		return saw(judge(ok, true, Note), "a script may run forever, and other clients never get a BUSY error (busy-reply-threshold 0)")
	}
	return saw(judge(ok, limit > e.options.spare(), Note), "a script may run for %v before other clients get a BUSY error (busy-reply-threshold)", limit)
}

// checkClient returns a Finding for each Advice of the Conn about its client. It returns nil if
// the Conn is not a redishold.Adviser.
func checkClient(e *exam) []Finding {
	adviser, ok := e.conn.(redishold.Adviser)
	if !ok {
		return nil
	}
	var all []Finding
	for _, a := range adviser.Advice() {
		all = append(all, Finding{
			ID: "client-settings", Severity: Warning, Saw: fmt.Sprintf("%s of the client is %s", a.Setting, a.Is),
			Why:    a.Why,
			Remedy: a.Setting + ": " + a.Better,
		})
	}
	if all == nil {
		return []Finding{{ID: "client-settings", Saw: "the client finds a new master soon"}}
	}
	return all
}
