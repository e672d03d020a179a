package doctor

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// outerChecks returns the checks that do not need the reply to INFO.
func outerChecks() []check[*server] {
	return []check[*server]{
		{"clock", func(_ *exam, s *server) Finding {
			if s.clock == nil {
				return unknown()
			}
			direction, by := "ahead of the clock of this machine", s.clock.ahead.Abs()
			if s.clock.ahead < 0 {
				direction = "behind the clock of this machine"
			}
			return saw(judge(true, by-s.clock.bound >= time.Second, Warning), "the clock of the server is %s %s (error at most %s)", short(by), direction, short(s.clock.bound))
		}},
		{"latency", checkLatency},
		{"slow-commands", func(e *exam, s *server) Finding {
			took, margin := s.slow.took, e.options.Margin
			return saw(judge(s.slow.known, took >= margin/3, severe(took >= margin)),
				"the command %s kept the server busy for %s, %s ago", s.slow.command, short(took), s.slow.ago.Round(time.Minute))
		}},
		{"pubsub-buffer", func(_ *exam, s *server) Finding {
			const enough = 1 << 20
			hard, soft, ok := parseBufferLimit(s.config["client-output-buffer-limit"])
			narrow := hard != 0 && hard < enough || soft != 0 && soft < enough/4
			return saw(judge(ok, narrow, Warning), "the buffer of a subscriber is limited to %s, and to %s for a longer time (client-output-buffer-limit)", size(hard), size(soft))
		}},
		{"script-limit", checkScripts},
	}
}

func checkLatency(e *exam, s *server) Finding {
	n, margin := len(s.trips), e.options.Margin
	if n == 0 {
		return unknown()
	}
	at := func(percent int) time.Duration { return s.trips[min(n-1, n*percent/100)] }
	worst := s.trips[n-1]
	return saw(judge(true, worst >= margin/3, severe(at(90) >= margin/3 || worst >= margin)),
		"of %d round trips, half took less than %s, 90 %% took less than %s, and the longest took %s; a lease of %[6]s has a margin of %[5]s",
		n, short(at(50)), short(at(90)), short(worst), short(margin), short(e.options.TTL))
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
			Why: a.Why, Remedy: a.Setting + ": " + a.Better,
		})
	}
	if all == nil {
		return []Finding{{ID: "client-settings"}}
	}
	return all
}
