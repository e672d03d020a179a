package doctor

import (
	"time"
)

func checkPersistence(e *exam, s *server) Finding {
	f := Finding{
		ID: "persistence", Severity: Warning,
		Why:    "A server that was restarted has forgotten locks that are still held, and gives them to somebody else.",
		Remedy: "CONFIG SET appendonly yes, and the same in redis.conf",
	}
	save, told := s.config["save"]
	switch aof, known := s.info["aof_enabled"]; {
	case !known:
		return untold("persistence", "whether it keeps a log", "+info")
	case aof == "1":
		return checkFsync(s)
	case told && save == "":
		f.Saw = "neither a log nor snapshots (appendonly no, save empty): a restart forgets every lock"
		if s.replicas() > 0 && e.failsOver() {
			f.Severity = Danger
			f.Why = "A master that restarts empty, before anybody notices, empties its replicas as well: all locks are gone."
		}
	default:
		f.Saw = "no log (appendonly no): a crash forgets every lock granted since the last snapshot"
	}
	return f
}

func checkFsync(s *server) Finding {
	policy, known := s.config["appendfsync"]
	f := Finding{
		ID: "persistence", Severity: Note, Saw: "appendonly is yes, appendfsync " + policy,
		Why:    "A crash of the server forgets nothing; a power loss forgets the locks granted in the last second or two.",
		Remedy: "CONFIG SET appendfsync always, where that counts",
	}
	switch {
	case !known:
		f.Severity, f.Saw = Unknown, "appendonly is yes; the server does not tell appendfsync"
		f.Remedy = "ACL SETUSER <user> +config|get"
	case policy == "always":
		return Finding{ID: "persistence", Saw: f.Saw}
	case policy == "no":
		f.Severity = Warning
		f.Why = "A power loss forgets the locks granted since the system last wrote its buffers, half a minute or so."
		f.Remedy = "CONFIG SET appendfsync everysec, or always"
	}
	return f
}

// checkWrites finds why a server would refuse any lock just now.
func checkWrites(_ *exam, s *server) Finding {
	f := Finding{ID: "writes", Severity: Danger, Why: "The server refuses every lock until that is mended."}
	switch {
	case s.info["loading"] == "1":
		f.Saw, f.Remedy = "it is loading its data (LOADING)", "wait, and look again"
	case s.info["aof_last_write_status"] == "err":
		f.Saw, f.Remedy = "it cannot write its log (MISCONF)", "make room on its disk"
	case s.info["rdb_last_bgsave_status"] == "err" && s.config["save"] != "" && s.config["stop-writes-on-bgsave-error"] != "no":
		f.Saw, f.Remedy = "its last snapshot failed (MISCONF)", "make room on its disk; its log says what was wrong. Then: BGSAVE"
	default:
		return Finding{ID: "writes", Saw: "it takes writes"}
	}
	return f
}

func checkFork(e *exam, s *server) Finding {
	micros, ok := s.count("latest_fork_usec")
	took := time.Duration(micros) * time.Microsecond
	switch {
	case !ok:
		return untold("fork", "how long its last fork took", "+info")
	case took < e.options.Margin/3:
		return Finding{ID: "fork", Saw: "forks do not hold it up"}
	}
	return Finding{
		ID: "fork", Severity: severe(took >= e.options.Margin), Saw: "it stood still for " + short(took) + " to fork, for a snapshot or a rewrite of its log",
		Why:    "Renewals and waiters stand still with it.",
		Remedy: "keep the data set small, best on a server for locks alone; echo never > /sys/kernel/mm/transparent_hugepage/enabled",
	}
}
