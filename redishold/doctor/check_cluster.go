package doctor

import "time"

func clusterChecks() []check[*server] {
	return []check[*server]{
		{"cluster-state", checkClusterState},
		{"cluster-slots", func(_ *exam, s *server) Finding {
			assigned := s.cluster["cluster_slots_assigned"]
			if assigned == "" {
				return Finding{}
			}
			return saw(judge(true, assigned != "16384", Danger), "only %s of 16384 slots have a node", assigned)
		}},
		{"cluster-migration", func(_ *exam, s *server) Finding {
			return saw(judge(true, s.leaving+s.arriving > 0, Warning), "slots are being moved: %d from this node, %d to this node", s.leaving, s.arriving)
		}},
		{"cluster-coverage", func(_ *exam, s *server) Finding {
			full, ok := s.config["cluster-require-full-coverage"]
			return saw(judge(ok, full == "yes", Note), "cluster-require-full-coverage is yes")
		}},
		{"cluster-timeout", func(e *exam, s *server) Finding {
			millis, ok := number(s.config, "cluster-node-timeout")
			return failoverTime(e, "cluster-node-timeout", millis, ok, 2) // the other nodes agree on the failure of a node after up to twice that time
		}},
	}
}

func checkClusterState(_ *exam, s *server) Finding {
	state, failed, silent := s.cluster["cluster_state"], s.cluster["cluster_slots_fail"], s.cluster["cluster_slots_pfail"]
	switch {
	case state == "":
		return unknown()
	case state != "ok":
		return saw(Danger, "the cluster is down: cluster_state is %s", state).as("down")
	case failed != "0":
		return saw(Danger, "slots whose nodes have failed: %s", failed)
	default:
		return saw(judge(true, silent != "0", Warning), "slots whose nodes do not answer this node: %s", silent).as("silent")
	}
}

// failoverTime returns a Finding about the longest time of a failover. This time is a multiple
// of a setting, plus a second for the election. The parameter `setting` is the name of the
// setting, `millis` its value, and `times` the factor. The parameter `known` is false if the
// server does not report the value.
func failoverTime(e *exam, setting string, millis int64, known bool, times int64) Finding {
	takes := time.Duration(times*millis)*time.Millisecond + time.Second // for the election
	return saw(judge(known, takes > e.options.spare(), Note), "a failover may take %s (%s %d), but with a lease of %s a renewal may be only %s late",
		short(takes), setting, millis, short(e.options.TTL), short(e.options.spare()))
}
