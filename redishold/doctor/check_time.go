package doctor

import (
	"fmt"
	"time"
)

// severe is Warning if bad, else Note.
func severe(bad bool) Severity {
	if bad {
		return Warning
	}
	return Note
}

func checkClock(_ *exam, s *server) Finding {
	const tolerated = time.Second
	if s.clockErr != nil {
		return untold("clock", "its time", "+time")
	}
	direction := "ahead of ours"
	if s.clock.ahead < 0 {
		direction = "behind ours"
	}
	saw := fmt.Sprintf("its clock is %s %s (give or take %s)", short(s.clock.ahead.Abs()), direction, short(s.clock.bound))
	if s.clock.ahead.Abs()-s.clock.bound < tolerated {
		return Finding{ID: "clock", Saw: saw}
	}
	return Finding{
		ID: "clock", Severity: Warning, Saw: saw,
		Why: "Leases do not depend on it: they are durations. But Redis counts them by its own wall clock, and one that is wrong is set right some day: " +
			"a step forward ends locks that are held. Fencing tokens stay in order over a fail-over only if the clocks of the servers agree.",
		Remedy: "run chrony or systemd-timesyncd on both machines, so that it is slewed and not stepped: chronyc tracking",
	}
}

func checkLatency(e *exam, s *server) Finding {
	n := len(s.trips)
	if n == 0 {
		return untold("latency", "how long a round trip takes", "+ping")
	}
	at := func(percent int) time.Duration { return s.trips[min(n-1, n*percent/100)] }
	worst := s.trips[n-1]
	saw := fmt.Sprintf("of %d round trips half took less than %s, 90 %% less than %s, the longest %s; the margin is %s of a lease of %s",
		n, short(at(50)), short(at(90)), short(worst), short(e.options.Margin), short(e.options.TTL))
	if worst < e.options.Margin/3 {
		return Finding{ID: "latency", Saw: saw}
	}
	return Finding{
		ID: "latency", Severity: severe(at(90) >= e.options.Margin/3 || worst >= e.options.Margin), Saw: saw,
		Why:    "A renewal needs a round trip, and has to be answered before the margin begins: else the lock counts as lost.",
		Remedy: "take a longer lease (Options.TTL, --ttl) or a server that is nearer",
	}
}

func checkSlow(e *exam, s *server) Finding {
	switch {
	case !s.slow.known:
		return untold("slow-commands", "which commands were slow", "+slowlog|get")
	case s.slow.took < e.options.Margin/3:
		return Finding{ID: "slow-commands", Saw: "no command of the last hour that it remembers took long"}
	}
	return Finding{
		ID: "slow-commands", Severity: severe(s.slow.took >= e.options.Margin),
		Saw:    fmt.Sprintf("%s held it up for %s, %s ago", s.slow.command, short(s.slow.took), s.slow.ago.Round(time.Minute)),
		Why:    "Redis runs one command at a time: renewals and waiters of everybody stood still meanwhile.",
		Remedy: "SLOWLOG GET tells which; keep KEYS, long scripts and large ranges away from the server of the locks",
	}
}

func checkScripts(e *exam, s *server) Finding {
	millis, ok := s.setting("busy-reply-threshold")
	if !ok {
		millis, ok = s.setting("lua-time-limit")
	}
	limit := time.Duration(millis) * time.Millisecond
	switch {
	case !ok:
		return untold("script-limit", "busy-reply-threshold", "+config|get")
	case limit > 0 && limit <= e.options.spare():
		return Finding{ID: "script-limit", Saw: "scripts that hang are noticed in time"}
	}
	saw := fmt.Sprintf("a script may run for %v before the server says so (busy-reply-threshold)", limit)
	if limit <= 0 {
		saw = "a script may run for ever, and the server does not say so (busy-reply-threshold 0)"
	}
	return Finding{
		ID: "script-limit", Severity: Note, Saw: saw,
		Why:    "Until then nobody can do anything, not even end the script, and every lock may be lost.",
		Remedy: "CONFIG SET busy-reply-threshold 5000 (lua-time-limit before Redis 7), or less than two thirds of the lease",
	}
}
