package doctor

import (
	"fmt"
	"time"
)

func clusterChecks() []check[*server] {
	return []check[*server]{
		{"cluster-state", checkClusterState, texts{
			lacks:  "the state of the cluster",
			right:  "+cluster",
			fine:   "the cluster is up",
			why:    "Locks in these slots are unreachable.",
			remedy: "redis-cli --cluster check <host>:<port>",
		}},
		{"cluster-slots", checkSlots, texts{
			fine:   "every slot has a node",
			why:    "A lock with a name in a slot without a node cannot be taken.",
			remedy: "redis-cli --cluster fix <host>:<port>",
		}},
		{"cluster-migration", checkMigration, texts{
			fine:   "no slot is being moved",
			why:    "Until the move ends, new locks in these slots wait, and semaphores cannot be released (TRYAGAIN). A move that nobody completes does not end.",
			remedy: "if nobody moves slots now: redis-cli --cluster fix <host>:<port>",
		}},
		{"cluster-coverage", checkCoverage, texts{
			lacks:  "cluster-require-full-coverage",
			right:  "+config|get",
			fine:   "the cluster works without slots that are down",
			why:    "If one master and its replicas are down, no lock of the whole cluster can be taken or renewed, not even on the other masters.",
			remedy: "CONFIG SET cluster-require-full-coverage no, on every node",
		}},
		{"cluster-timeout", checkNodeTimeout, texts{
			lacks:  "cluster-node-timeout",
			right:  "+config|get",
			fine:   "a failover takes less time than a lease",
			why:    "If a master dies, its locks are lost, although their holders are notified before another server takes over.",
			remedy: "CONFIG SET cluster-node-timeout <less>, on every node, or a longer lease (Options.TTL, --ttl)",
		}},
	}
}

func checkClusterState(_ *exam, s *server) Finding {
	state := s.cluster["cluster_state"]
	failed := s.cluster["cluster_slots_fail"]
	silent := s.cluster["cluster_slots_pfail"]
	switch {
	case state == "":
		return unknown()
	case state != "ok":
		return Finding{
			Severity: Danger, Saw: "the cluster is down: cluster_state is " + state,
			Why: "The cluster refuses all locks (CLUSTERDOWN).",
		}
	case failed != "0":
		return saw(Danger, "slots whose nodes have failed: %s", failed)
	}
	return Finding{
		Severity: judge(true, silent != "0", Warning), Saw: "slots whose nodes do not answer this node: " + silent,
		Why: "Locks in these slots are unreachable, or will be soon.",
	}
}

func checkSlots(_ *exam, s *server) Finding {
	assigned := s.cluster["cluster_slots_assigned"]
	if assigned == "" {
		return Finding{}
	}
	return saw(judge(true, assigned != "16384", Danger), "only %s of 16384 slots have a node", assigned)
}

func checkMigration(_ *exam, s *server) Finding {
	return saw(judge(true, s.leaving+s.arriving > 0, Warning), "slots are being moved: %d from this node, %d to this node", s.leaving, s.arriving)
}

func checkCoverage(_ *exam, s *server) Finding {
	full, known := s.config["cluster-require-full-coverage"]
	return saw(judge(known, full == "yes", Note), "cluster-require-full-coverage is yes")
}

func checkNodeTimeout(e *exam, s *server) Finding {
	const setting = "cluster-node-timeout"
	millis, known := number(s.config, setting)
	return failoverTime(e, setting, millis, known, 2) // the other nodes agree on the failure of a node after up to twice that time
}

// failoverTime returns a Finding about the longest time of a failover. This time is a multiple
// of a setting, plus a second for the election. The parameter `setting` is the name of the
// setting, `millis` its value, and `times` the factor. The parameter `known` is false if the
// server does not report the value.
func failoverTime(e *exam, setting string, millis int64, known bool, times int64) Finding {
	takes := time.Duration(times*millis)*time.Millisecond + time.Second // for the election
	spare := e.options.spare()
	return Finding{
		Severity: judge(known, takes > spare, Note),
		Saw: fmt.Sprintf("a failover may take %s (%s %d), but with a lease of %s a renewal may be only %s late",
			short(takes), setting, millis, short(e.options.TTL), short(spare)),
	}
}
