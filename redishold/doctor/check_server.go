package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/plural"
)

func serverChecks() []check[*server] {
	return []check[*server]{
		{"version", checkVersion, texts{
			lacks:  "its version",
			right:  "+info",
			why:    "Holdfast needs Redis 6.2 or newer, and refuses to lock here.",
			remedy: "upgrade the server",
		}},
		{"lua-holes", checkHoles, texts{
			why:    "A client that may lock may run scripts. A script can use these security holes to take over the server.",
			remedy: "upgrade the server, or read the changelog of its package",
		}},
		{"role", checkRole, texts{
			lacks:  "whether it is a master",
			right:  "+info",
			why:    "A replica grants no locks: it answers READONLY.",
			remedy: "name the master in the URL, or name the Sentinels: redis+sentinel://host:26379/NAME",
		}},
		{"eviction", checkEviction, texts{
			lacks:  "maxmemory-policy",
			right:  "+info",
			fine:   "maxmemory-policy is noeviction",
			why:    "To free memory, the server can remove a lock that is held. Then another client gets the lock.",
			remedy: "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; best: a server only for locks",
		}},
		{"persistence", checkPersistence, texts{
			lacks:  "whether it keeps an append-only log",
			right:  "+info",
			why:    "After a restart, the server has forgotten locks that are still held, and grants them to other clients.",
			remedy: "CONFIG SET appendonly yes, and the same in redis.conf",
		}},
		{"persistence", checkFsync, texts{
			lacks:  "appendfsync",
			right:  "+config|get",
			why:    "A crash of the server forgets no lock. A power loss forgets the locks that were granted in the last second or two.",
			remedy: "if a power loss matters: CONFIG SET appendfsync always",
		}},
		{"writes", checkWrites, texts{
			fine:   "the server accepts writes",
			why:    "The server refuses every lock until the problem is fixed.",
			remedy: "free space on the disk of the server",
		}},
		{"fork", checkFork, texts{
			lacks:  "how long its last fork took",
			right:  "+info",
			fine:   "forks do not delay the server",
			why:    "During a fork the server answers no renewal and no waiter.",
			remedy: "keep the data set small; best: a server only for locks; also: echo never > /sys/kernel/mm/transparent_hugepage/enabled",
		}},
	}
}

func checkVersion(_ *exam, s *server) Finding {
	r, known := parseRelease(s.info["redis_version"])
	if known && slices.Compare(r[:], []int{6, 2}) >= 0 {
		return saw(OK, "%s", s.version())
	}
	return saw(judge(known, true, Danger), "%s is too old", s.version())
}

// fixedReleases returns for each branch the first release without the vulnerabilities in Lua
// that became known in October 2025. The worst vulnerability is CVE-2025-49844: a user who may
// run a script can take over the server. The branches between the listed ones have no such
// release.
func fixedReleases(valkey bool) []release {
	if valkey {
		return []release{{7, 2, 11}, {8, 0, 6}, {8, 1, 4}}
	}
	return []release{{6, 2, 20}, {7, 2, 11}, {7, 4, 6}, {8, 0, 4}, {8, 2, 2}}
}

func checkHoles(_ *exam, s *server) Finding {
	version := s.info["valkey_version"]
	valkey := version != ""
	if !valkey {
		version = s.info["redis_version"]
	}
	r, known := parseRelease(version)
	if !known {
		return Finding{}
	}
	branches := fixedReleases(valkey)
	last := branches[len(branches)-1]
	if slices.Compare(r[:], last[:]) >= 0 || slices.ContainsFunc(branches, func(m release) bool {
		return r[0] == m[0] && r[1] == m[1] && r[2] >= m[2]
	}) {
		return Finding{}
	}
	return saw(Note, "the Lua of %s has security holes (CVE-2025-49844 and others), unless the distribution has repaired them", s.version())
}

func checkRole(e *exam, s *server) Finding {
	role := s.role()
	switch {
	case role == "master":
		return saw(OK, "the server is a master")
	case role != "" && (e.cluster() || slices.ContainsFunc(e.servers, func(other *server) bool { return other.role() == "master" })):
		return saw(OK, "the server is a replica, and its master was checked too")
	default:
		return saw(judge(role != "", true, Danger), "the server is a replica of %s:%s", s.info["master_host"], s.info["master_port"])
	}
}

func checkEviction(_ *exam, s *server) Finding {
	policy, known := s.info["maxmemory_policy"]
	limit, _ := number(s.info, "maxmemory")
	if limit == 0 {
		return saw(judge(known, policy != "noeviction", Note), "maxmemory-policy is %s, which has no effect as long as maxmemory is 0", policy)
	}
	evicted, _ := number(s.info, "evicted_keys")
	return saw(judge(known, policy != "noeviction", Danger), "maxmemory-policy is %s and maxmemory is %s; the server has evicted %s since its start",
		policy, size(limit), plural.Count(evicted, "key"))
}

// checkPersistence returns a Finding about a server without an append-only log. For the log see
// checkFsync.
func checkPersistence(e *exam, s *server) Finding {
	aof, known := s.info["aof_enabled"]
	if !known {
		return unknown()
	}
	if aof == "1" {
		return Finding{}
	}
	save, reported := s.config["save"]
	if !reported || save != "" {
		return saw(Warning, "the server keeps no append-only log (appendonly no), and a snapshot lacks the locks that were granted after it")
	}
	const saved = "the server keeps no append-only log and no snapshots (appendonly no, save empty)"
	if s.replicas() > 0 && e.failsOver() {
		return Finding{
			Severity: Danger, Saw: saved,
			Why: "A master that restarts without data before a failover also empties its replicas. Then all locks are lost.",
		}
	}
	return saw(Warning, saved)
}

// checkFsync returns a Finding about the append-only log.
func checkFsync(_ *exam, s *server) Finding {
	if s.info["aof_enabled"] != "1" {
		return Finding{}
	}
	policy, known := s.config["appendfsync"]
	if !known {
		return unknown()
	}
	seen := "appendonly is yes, appendfsync " + policy
	switch policy {
	case "always":
		return Finding{Severity: OK, Saw: seen}
	case "no":
		return Finding{
			Severity: Warning, Saw: seen,
			Why:    "A power loss forgets the locks that were granted since the system last wrote its buffers, up to about half a minute before.",
			Remedy: "CONFIG SET appendfsync everysec, or always",
		}
	}
	return Finding{Severity: Note, Saw: seen}
}

// checkWrites finds a reason why the server refuses all locks at the moment.
func checkWrites(_ *exam, s *server) Finding {
	switch {
	case s.info["loading"] == "1":
		return Finding{
			Severity: Danger, Saw: "the server is loading its data (LOADING)",
			Remedy: "wait, and check again",
		}
	case s.info["aof_last_write_status"] == "err":
		return saw(Danger, "the server cannot write its append-only log (MISCONF)")
	case s.info["rdb_last_bgsave_status"] == "err" && s.config["save"] != "" && s.config["stop-writes-on-bgsave-error"] != "no":
		return Finding{
			Severity: Danger, Saw: "the last snapshot of the server failed (MISCONF)",
			Remedy: "free space on the disk of the server, or fix the cause that its log shows; then: BGSAVE",
		}
	}
	return saw(OK, "it takes writes")
}

func checkFork(e *exam, s *server) Finding {
	micros, known := number(s.info, "latest_fork_usec")
	took := time.Duration(micros) * time.Microsecond
	margin := e.options.Margin
	return Finding{
		Severity: judge(known, took >= margin/3, severe(took >= margin)),
		Saw:      fmt.Sprintf("the last fork, for a snapshot or for a rewrite of the append-only log, stopped the server for %s", short(took)),
	}
}
