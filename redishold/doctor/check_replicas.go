package doctor

import (
	"time"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

func checkReplicas(e *exam, s *server) Finding {
	if s.role() != "master" {
		return Finding{}
	}
	n, ok := number(s.info, "connected_slaves")
	asked := e.options.Redis.Replicas
	switch {
	case !ok:
		return unknown()
	case n == 0 && e.failsOver():
		return saw(Warning, "the server has no replica").as("none")
	case n == 0 && asked != 0:
		return saw(Danger, "the server has no replica, but Options.Replicas requires the confirmation of replicas").as("missing")
	case n == 0:
		return saw(OK, "the server has no replica and needs none: no other server can take over and forget locks")
	case asked == redishold.AllReplicas || int64(asked) >= n:
		return saw(OK, "each grant waits for all replicas (%d)", n)
	case asked > 0:
		return saw(Note, "each grant waits for %d of %d replicas", asked, n).as("some")
	default:
		return saw(Note, "no grant waits for the replicas (%d): a replica receives each lock only after its grant", n)
	}
}

func checkLag(_ *exam, s *server) Finding {
	const tolerated = 3 // in seconds; a replica reports once a second
	status, all := s.info["master_link_status"], s.replicas()
	switch {
	case s.role() == "replica" && status != "up":
		return saw(Warning, "the connection of the replica to its master is %s", status)
	case s.role() == "replica" || all == 0:
		return Finding{}
	}
	inStep := int64(0)
	for _, value := range s.info { // a value that has a state and a lag describes a replica
		fields := wire.Fields(value, ",", "=")
		if lag, ok := number(fields, "lag"); ok && lag <= tolerated && fields["state"] == "online" {
			inStep++
		}
	}
	return saw(judge(true, inStep < all, Warning), "replicas that are behind (not online, or without a report for more than %d s): %d of %d", tolerated, all-inStep, all)
}

func checkMinReplicas(e *exam, s *server) Finding {
	if s.role() != "master" || s.replicas() == 0 {
		return Finding{}
	}
	least, ok1 := number(s.config, "min-replicas-to-write")
	lag, ok2 := number(s.config, "min-replicas-max-lag")
	switch good, known := number(s.info, "min_slaves_good_slaves"); {
	case !ok1 || !ok2:
		return unknown()
	case (least == 0 || lag == 0) && e.failsOver():
		f := saw(severe(e.hasSentinels()), "the master accepts writes even if no replica is connected (min-replicas-to-write %d, min-replicas-max-lag %d)", least, lag)
		if e.cluster() {
			return f.as("cluster")
		}
		return f
	case least == 0 || lag == 0:
		return saw(OK, "no failover happens by itself")
	case known && good < least:
		return saw(Danger, "the server refuses writes (NOREPLICAS): it needs %[2]d replicas that are up to date, and has %[1]d", good, least).as("refused")
	case time.Duration(lag)*time.Second > e.options.spare():
		return saw(Note, "a master that is cut off still accepts writes for %d s (min-replicas-max-lag): a lease without renewal can end earlier", lag).as("lag")
	default:
		return saw(OK, "a master that is cut off refuses writes after about %d s", lag)
	}
}
