package doctor

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/plural"
)

func serverChecks() []check[*server] {
	return []check[*server]{
		{"version", func(_ *exam, s *server) Finding {
			r, ok := parseRelease(s.info["redis_version"])
			if ok && slices.Compare(r[:], []int{6, 2}) >= 0 {
				return saw(OK, "%s", s.version())
			}
			return saw(judge(ok, true, Danger), "%s is too old", s.version())
		}},
		{"lua-holes", checkHoles},
		{"role", checkRole},
		{"eviction", func(_ *exam, s *server) Finding {
			policy, known := s.info["maxmemory_policy"]
			limit, _ := number(s.info, "maxmemory")
			if limit == 0 {
				return saw(judge(known, policy != "noeviction", Note), "maxmemory-policy is %s, which has no effect as long as maxmemory is 0", policy)
			}
			evicted, _ := number(s.info, "evicted_keys")
			return saw(judge(known, policy != "noeviction", Danger), "maxmemory-policy is %s and maxmemory is %s; the server has evicted %s since its start", policy, size(limit), plural.Count(evicted, "key"))
		}},
		{"persistence", checkPersistence},
		{"writes", checkWrites},
		{"fork", func(e *exam, s *server) Finding {
			micros, ok := number(s.info, "latest_fork_usec")
			took, margin := time.Duration(micros)*time.Microsecond, e.options.Margin
			return saw(judge(ok, took >= margin/3, severe(took >= margin)), "the last fork, for a snapshot or for a rewrite of the append-only log, stopped the server for %s", short(took))
		}},
		{"replicas", checkReplicas},
		{"replica-lag", checkLag},
		{"min-replicas", checkMinReplicas},
	}
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
	version, valkey := s.info["valkey_version"], true
	if version == "" {
		version, valkey = s.info["redis_version"], false
	}
	r, ok := parseRelease(version)
	branches := fixedReleases(valkey)
	last := branches[len(branches)-1]
	if !ok || slices.Compare(r[:], last[:]) >= 0 || slices.ContainsFunc(branches, func(m release) bool {
		return r[0] == m[0] && r[1] == m[1] && r[2] >= m[2]
	}) {
		return Finding{}
	}
	return saw(Note, "the Lua of %s has security holes (CVE-2025-49844 and others), unless the distribution has repaired them", s.version())
}

func checkRole(e *exam, s *server) Finding {
	switch role := s.role(); {
	case role == "master":
		return saw(OK, "the server is a master")
	case role != "" && (e.cluster() || slices.ContainsFunc(e.servers, func(other *server) bool { return other.role() == "master" })):
		return saw(OK, "the server is a replica, and its master was checked too")
	default:
		return saw(judge(role != "", true, Danger), "the server is a replica of %s:%s", s.info["master_host"], s.info["master_port"])
	}
}

func checkPersistence(e *exam, s *server) Finding {
	save, reported := s.config["save"]
	aof, known := s.info["aof_enabled"]
	switch {
	case !known:
		return unknown()
	case aof == "1":
		return checkFsync(s)
	case !reported || save != "":
		return saw(Warning, "the server keeps no append-only log (appendonly no), and a snapshot lacks the locks that were granted after it")
	}
	const saved = "the server keeps no append-only log and no snapshots (appendonly no, save empty)"
	if s.replicas() > 0 && e.failsOver() {
		return saw(Danger, saved).as("replicas")
	}
	return saw(Warning, saved)
}

func checkFsync(s *server) Finding {
	const seen = "appendonly is yes, appendfsync %s"
	switch policy, known := s.config["appendfsync"]; {
	case !known:
		return unknown().as("log")
	case policy == "always":
		return saw(OK, seen, policy)
	case policy == "no":
		return saw(Warning, seen, policy).as("no")
	default:
		return saw(Note, seen, policy).as("log")
	}
}

// checkWrites finds a reason why the server refuses all locks at the moment.
func checkWrites(_ *exam, s *server) Finding {
	switch {
	case s.info["loading"] == "1":
		return saw(Danger, "the server is loading its data (LOADING)").as("loading")
	case s.info["aof_last_write_status"] == "err":
		return saw(Danger, "the server cannot write its append-only log (MISCONF)")
	case s.info["rdb_last_bgsave_status"] == "err" && s.config["save"] != "" && s.config["stop-writes-on-bgsave-error"] != "no":
		return saw(Danger, "the last snapshot of the server failed (MISCONF)").as("snapshot")
	}
	return saw(OK, "it takes writes")
}
