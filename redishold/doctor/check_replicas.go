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
		return saw(Warning, "it has no replica").as("none")
	case n == 0 && asked != 0:
		return saw(Danger, "it has no replica, and locks ask for some (Options.Replicas)").as("missing")
	case n == 0:
		return saw(OK, "a single server: locks wait for it when it is down, and nothing takes over without knowing them")
	case asked == redishold.AllReplicas || int64(asked) >= n:
		return saw(OK, "each grant waits for all of its %d replicas", n)
	case asked > 0:
		return saw(Note, "each grant waits for %d of its %d replicas", asked, n).as("some")
	default:
		return saw(Note, "%d replicas, which get locks some time after they were granted", n)
	}
}

func checkLag(_ *exam, s *server) Finding {
	const tolerated = 3 // in seconds; a replica reports once a second
	status, all := s.info["master_link_status"], s.replicas()
	switch {
	case s.role() == "replica" && status != "up":
		return saw(Warning, "its link to its master is %s", status)
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
	return saw(judge(true, inStep < all, Warning), "%d of %d replicas are not in step (not online, or silent for more than %d s)", all-inStep, all, tolerated)
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
		f := saw(severe(e.hasSentinels()), "it takes writes without any replica (min-replicas-to-write %d, min-replicas-max-lag %d)", least, lag)
		if e.cluster() {
			return f.as("cluster")
		}
		return f
	case least == 0 || lag == 0:
		return saw(OK, "nothing fails over by itself")
	case known && good < least:
		return saw(Danger, "it refuses writes: %d of at least %d replicas are in step (NOREPLICAS)", good, least).as("refused")
	case time.Duration(lag)*time.Second > e.options.spare():
		return saw(Note, "a master that is cut off goes on for %d s (min-replicas-max-lag), longer than a lease lasts without renewal", lag).as("lag")
	default:
		return saw(OK, "a master that is cut off stops after about %d s", lag)
	}
}
