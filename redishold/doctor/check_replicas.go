package doctor

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

func replicaChecks() []check[*server] {
	return []check[*server]{
		{"replicas", checkReplicas, texts{
			lacks:  "how many replicas it has",
			right:  "+info",
			why:    "A failover can forget the last grants. Then another client gets a lock that is still held. Only fencing tokens show which holder is the newer one.",
			remedy: "set redishold.Options.Replicas to AllReplicas for locks that matter, and check fencing tokens",
		}},
		{"replica-lag", checkLag, texts{
			fine:   "the replicas are up to date",
			why:    "If a failover chooses a replica that is behind, the locks that this replica has not received are lost.",
			remedy: "check the connection between master and replica, and the log of the replica",
		}},
		{"min-replicas", checkMinReplicas, texts{
			lacks:  "min-replicas-to-write",
			right:  "+config|get",
			why:    "A master that is cut off still grants and renews locks, while a replica takes over and grants the same locks.",
			remedy: "CONFIG SET min-replicas-to-write 1, CONFIG SET min-replicas-max-lag 3, on the replicas as well",
		}},
	}
}

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
		return Finding{
			Severity: Warning, Saw: "the server has no replica",
			Why:    "If the server dies, no server can take over. Its locks are unreachable until it is back.",
			Remedy: "start a replica of the server: REPLICAOF <host> <port>",
		}
	case n == 0 && asked != 0:
		return Finding{
			Severity: Danger, Saw: "the server has no replica, but Options.Replicas requires the confirmation of replicas",
			Why:    "No lock is granted while replicas are missing.",
			Remedy: "start a replica of the server, or leave Options.Replicas at 0",
		}
	case n == 0:
		return saw(OK, "the server has no replica and needs none: no other server can take over and forget locks")
	case asked == redishold.AllReplicas || int64(asked) >= n:
		return saw(OK, "each grant waits for all replicas (%d)", n)
	case asked > 0:
		return Finding{
			Severity: Note, Saw: fmt.Sprintf("each grant waits for %d of %d replicas", asked, n),
			Why:    "If a failover chooses a replica that has not confirmed a grant, another client gets a lock that is still held.",
			Remedy: "set redishold.Options.Replicas to AllReplicas",
		}
	default:
		return saw(Note, "no grant waits for the replicas (%d): a replica receives each lock only after its grant", n)
	}
}

func checkLag(_ *exam, s *server) Finding {
	const tolerated = 3 // in seconds; a replica reports once a second
	if status := s.info["master_link_status"]; s.role() == "replica" && status != "up" {
		return saw(Warning, "the connection of the replica to its master is %s", status)
	}
	all := s.replicas()
	if s.role() == "replica" || all == 0 {
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
	least, leastKnown := number(s.config, "min-replicas-to-write")
	lag, lagKnown := number(s.config, "min-replicas-max-lag")
	good, goodKnown := number(s.info, "min_slaves_good_slaves")
	switch {
	case !leastKnown || !lagKnown:
		return unknown()
	case (least == 0 || lag == 0) && e.failsOver():
		f := saw(severe(e.hasSentinels()), "the master accepts writes even if no replica is connected (min-replicas-to-write %d, min-replicas-max-lag %d)", least, lag)
		if e.cluster() {
			f.Why = "A master that is cut off still grants and renews locks until cluster-node-timeout is over."
		}
		return f
	case least == 0 || lag == 0:
		return saw(OK, "no failover happens by itself")
	case goodKnown && good < least:
		return Finding{
			Severity: Danger, Saw: fmt.Sprintf("the server refuses writes (NOREPLICAS): it needs %d replicas that are up to date, and has %d", least, good),
			Why:    "No lock is granted or renewed until enough replicas are up to date.",
			Remedy: "repair the replicas: INFO replication lists them",
		}
	case time.Duration(lag)*time.Second > e.options.spare():
		return Finding{
			Severity: Note, Saw: fmt.Sprintf("a master that is cut off still accepts writes for %d s (min-replicas-max-lag): a lease without renewal can end earlier", lag),
			Remedy: "CONFIG SET min-replicas-max-lag 3",
		}
	default:
		return saw(OK, "a master that is cut off refuses writes after about %d s", lag)
	}
}
