package doctor

import (
	"fmt"
	"slices"
)

// checkServer runs all checks of a single server.
func checkServer(e *exam, s *server) []Finding {
	if s.err != nil {
		return []Finding{{
			ID: "answers", Severity: Warning,
			Saw:    "it does not answer: " + s.err.Error(),
			Why:    "Locks that live there, or will after a fail-over, are out of reach from here.",
			Remedy: "start it, or open the way to it from this machine",
		}}
	}
	if s.info == nil {
		return append([]Finding{{
			ID: "info", Severity: Unknown,
			Saw:    "the user may not ask what the server is (INFO)",
			Why:    "Version, role, memory, replicas and persistence stay unknown, and the library cannot tell that locks may be evicted.",
			Remedy: "ACL SETUSER <user> +info",
		}}, checkWithoutInfo(e, s)...)
	}
	checks := []func(*exam, *server) Finding{
		checkVersion, checkHoles, checkRole, checkEviction, checkMemory, checkPersistence, checkWrites,
		checkClients, checkFork,
		checkReplicas, checkLag, checkMinReplicas,
		checkClusterState, checkSlots, checkMigration, checkCoverage, checkClusterTimeout,
	}
	var found []Finding
	for _, check := range checks {
		if f := check(e, s); f.ID != "" {
			found = append(found, f)
		}
	}
	return append(found, checkWithoutInfo(e, s)...)
}

// checkWithoutInfo runs the checks that can do without INFO.
func checkWithoutInfo(e *exam, s *server) []Finding {
	var found []Finding
	for _, check := range []func(*exam, *server) Finding{
		checkClock, checkLatency, checkSlow, checkIdle, checkKeepAlive, checkBuffer, checkScripts, checkEvents,
	} {
		if f := check(e, s); f.ID != "" {
			found = append(found, f)
		}
	}
	return found
}

// untold is the finding of a check that lacks what it needs.
func untold(id, what, right string) Finding {
	return Finding{ID: id, Severity: Unknown, Saw: "the server does not tell " + what, Remedy: "ACL SETUSER <user> " + right}
}

func checkVersion(_ *exam, s *server) Finding {
	r, ok := parseRelease(s.info["redis_version"])
	switch {
	case !ok:
		return untold("version", "its version", "+info")
	case r.before(6, 2):
		return Finding{
			ID: "version", Severity: Danger, Saw: s.version() + " is too old",
			Why:    "Holdfast needs Redis 6.2 or newer, and refuses to lock here.",
			Remedy: "upgrade the server",
		}
	}
	return Finding{ID: "version", Saw: s.version()}
}

// mended are the first releases of each branch without the holes of October 2025
// in Lua, CVE-2025-49844 before all, which give whoever may run a script the
// whole server. Branches in between were never mended.
func mended(valkey bool) []release {
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
	branches := mended(valkey)
	last := branches[len(branches)-1]
	if !ok || slices.Compare(r[:], last[:]) >= 0 || slices.ContainsFunc(branches, func(m release) bool {
		return r[0] == m[0] && r[1] == m[1] && r[2] >= m[2]
	}) {
		return Finding{}
	}
	return Finding{
		ID: "lua-holes", Severity: Note,
		Saw:    s.version() + " has holes in its Lua (CVE-2025-49844 and others), unless the distribution has mended them",
		Why:    "Whoever may lock may run scripts, and with these holes whoever may run scripts may take over the server.",
		Remedy: "upgrade the server, or look up the changelog of its package",
	}
}

func checkRole(e *exam, s *server) Finding {
	switch role := s.role(); {
	case role == "":
		return untold("role", "whether it is a master", "+info")
	case role == "master":
		return Finding{ID: "role", Saw: "a master"}
	case e.cluster() || slices.ContainsFunc(e.servers, func(other *server) bool { return other.role() == "master" }):
		return Finding{ID: "role", Saw: "a replica beside its master"}
	}
	return Finding{
		ID: "role", Severity: Danger, Saw: fmt.Sprintf("a replica, of %s:%s", s.info["master_host"], s.info["master_port"]),
		Why:    "A replica takes no locks: it answers READONLY.",
		Remedy: "name the master in the URL, or the Sentinels: redis+sentinel://host:26379/NAME",
	}
}

func checkEviction(_ *exam, s *server) Finding {
	policy, known := s.info["maxmemory_policy"]
	limit, _ := s.count("maxmemory")
	f := Finding{
		ID: "eviction", Saw: "maxmemory-policy is " + policy,
		Why:    "A server that evicts drops locks that are held, and gives them to somebody else.",
		Remedy: "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; best on a server for locks alone",
	}
	switch evicted, _ := s.count("evicted_keys"); {
	case !known:
		return untold("eviction", "maxmemory-policy", "+info")
	case policy == "noeviction":
		return Finding{ID: "eviction", Saw: f.Saw}
	case limit == 0:
		f.Severity = Note
		f.Saw += ", which has no effect as long as maxmemory is 0"
	default:
		f.Severity = Danger
		f.Saw += fmt.Sprintf(" with maxmemory %s; %d keys were evicted since its start", size(limit), evicted)
	}
	return f
}

func checkMemory(_ *exam, s *server) Finding {
	used, ok := s.count("used_memory")
	limit, _ := s.count("maxmemory")
	machine, _ := s.count("total_system_memory")
	f := Finding{
		ID: "memory", Why: "A full server refuses new locks (OOM), or evicts those that are held.",
		Remedy: "CONFIG SET maxmemory <more>, or remove what does not belong there",
	}
	if limit == 0 && machine > 0 {
		limit = machine
		f.Why = "Without a limit of its own a server takes all memory of the machine, until the system kills it."
		f.Remedy = "CONFIG SET maxmemory <less than the machine has>, with maxmemory-policy noeviction"
		if rss, known := s.count("used_memory_rss"); known {
			used = rss
		}
	}
	f.Saw = fmt.Sprintf("%s of %s are in use", size(used), size(limit))
	switch {
	case !ok || limit == 0:
		return untold("memory", "how much memory it has", "+info")
	case used*20 >= limit*19:
		f.Severity = Danger
	case used*5 >= limit*4:
		f.Severity = Warning
	default:
		return Finding{ID: "memory", Saw: f.Saw}
	}
	return f
}
