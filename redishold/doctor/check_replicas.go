package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

func checkReplicas(e *exam, s *server) Finding {
	if s.role() != "master" {
		return Finding{}
	}
	n, ok := s.count("connected_slaves")
	asked := e.options.Redis.Replicas
	switch {
	case !ok:
		return untold("replicas", "how many replicas it has", "+info")
	case n == 0 && e.failsOver():
		return Finding{
			ID: "replicas", Severity: Warning, Saw: "it has no replica",
			Why:    "Nobody can take over when it dies: its locks are out of reach until it is back.",
			Remedy: "start a replica of it: REPLICAOF <host> <port>",
		}
	case n == 0 && asked != 0:
		return Finding{
			ID: "replicas", Severity: Danger, Saw: "it has no replica, and locks ask for some (Options.Replicas)",
			Why:    "No lock is granted as long as replicas are missing.",
			Remedy: "start a replica of it, or leave Options.Replicas at 0",
		}
	case n == 0:
		return Finding{ID: "replicas", Saw: "a single server: locks wait for it when it is down, and nothing takes over without knowing them"}
	case asked == redishold.AllReplicas || int64(asked) >= n:
		return Finding{ID: "replicas", Saw: fmt.Sprintf("each grant waits for all of its %d replicas", n)}
	case asked > 0:
		return Finding{
			ID: "replicas", Severity: Note, Saw: fmt.Sprintf("each grant waits for %d of its %d replicas", asked, n),
			Why:    "After a fail-over to another one, locks that are held are given to somebody else.",
			Remedy: "set redishold.Options.Replicas to AllReplicas",
		}
	}
	return Finding{
		ID: "replicas", Severity: Note, Saw: fmt.Sprintf("%d replicas, which get locks some time after they were granted", n),
		Why:    "A fail-over may forget the last grants, and give such a lock to somebody else while it is held. Fencing tokens tell.",
		Remedy: "set redishold.Options.Replicas to AllReplicas where that counts, and check tokens",
	}
}

func checkLag(_ *exam, s *server) Finding {
	f := Finding{
		ID: "replica-lag", Severity: Warning,
		Why:    "A fail-over to a replica that is behind forgets the locks that it has not heard of.",
		Remedy: "look at the link between them, and at the log of the replica",
	}
	if s.role() == "replica" {
		if status := s.info["master_link_status"]; status != "up" {
			f.Saw = "its link to its master is " + status
			return f
		}
		return Finding{}
	}
	const tolerated = 3 // seconds; a replica reports once a second
	inStep := int64(0)
	for field, value := range s.info {
		if !strings.HasPrefix(field, "slave") {
			continue
		}
		fields := parseFields(value)
		if lag, err := strconv.Atoi(fields["lag"]); fields["state"] == "online" && err == nil && lag <= tolerated {
			inStep++
		}
	}
	switch {
	case s.replicas() == 0:
		return Finding{}
	case inStep >= s.replicas():
		return Finding{ID: "replica-lag", Saw: "replicas keep up"}
	}
	f.Saw = fmt.Sprintf("%d of %d replicas are not in step (not online, or silent for more than %d s)", s.replicas()-inStep, s.replicas(), tolerated)
	return f
}

func checkMinReplicas(e *exam, s *server) Finding {
	if s.role() != "master" || s.replicas() == 0 {
		return Finding{}
	}
	least, ok1 := s.setting("min-replicas-to-write")
	lag, ok2 := s.setting("min-replicas-max-lag")
	f := Finding{
		ID: "min-replicas", Severity: severe(e.watched()),
		Saw:    fmt.Sprintf("it takes writes without any replica (min-replicas-to-write %d, min-replicas-max-lag %d)", least, lag),
		Why:    "A master that is cut off goes on granting and renewing locks while a replica takes over and grants the same.",
		Remedy: "CONFIG SET min-replicas-to-write 1, CONFIG SET min-replicas-max-lag 3, on the replicas as well",
	}
	switch good, known := s.count("min_slaves_good_slaves"); {
	case !ok1 || !ok2:
		return untold("min-replicas", "min-replicas-to-write", "+config|get")
	case (least == 0 || lag == 0) && e.failsOver():
		if e.cluster() {
			f.Why = "A master that is cut off goes on granting and renewing locks until cluster-node-timeout has passed."
		}
		return f
	case least == 0 || lag == 0:
		return Finding{ID: "min-replicas", Saw: "nothing fails over by itself"}
	case known && good < least:
		return Finding{
			ID: "min-replicas", Severity: Danger, Saw: fmt.Sprintf("it refuses writes: %d of at least %d replicas are in step (NOREPLICAS)", good, least),
			Why:    "No lock is granted or renewed until they are.",
			Remedy: "bring the replicas back: INFO replication tells which",
		}
	case time.Duration(lag)*time.Second > e.options.spare():
		f.Severity = Note
		f.Saw = fmt.Sprintf("a master that is cut off goes on for %d s (min-replicas-max-lag), longer than a lease lasts without renewal", lag)
		f.Remedy = "CONFIG SET min-replicas-max-lag 3"
		return f
	}
	return Finding{ID: "min-replicas", Saw: fmt.Sprintf("a master that is cut off stops after about %d s", lag)}
}

func checkClusterState(_ *exam, s *server) Finding {
	if !s.isCluster() {
		return Finding{}
	}
	number := func(field string) string { return s.cluster[field] }
	f := Finding{ID: "cluster-state", Severity: Danger, Remedy: "redis-cli --cluster check <host>:<port>"}
	switch state := s.cluster["cluster_state"]; {
	case state == "":
		return untold("cluster-state", "the state of the cluster", "+cluster")
	case state != "ok":
		f.Saw = "the cluster is down: cluster_state is " + state
		f.Why = "It refuses all locks (CLUSTERDOWN)."
	case number("cluster_slots_fail") != "0":
		f.Saw = number("cluster_slots_fail") + " slots are with nodes that have failed"
		f.Why = "Locks in these slots are out of reach."
	case number("cluster_slots_pfail") != "0":
		f.Severity = Warning
		f.Saw = number("cluster_slots_pfail") + " slots are with nodes that do not answer this one"
		f.Why = "Locks in these slots are out of reach, or soon will be."
	default:
		return Finding{ID: "cluster-state", Saw: "the cluster is up"}
	}
	return f
}

func checkSlots(_ *exam, s *server) Finding {
	assigned := s.cluster["cluster_slots_assigned"]
	switch {
	case !s.isCluster() || assigned == "":
		return Finding{}
	case assigned == "16384":
		return Finding{ID: "cluster-slots", Saw: "every slot has a node"}
	}
	return Finding{
		ID: "cluster-slots", Severity: Danger, Saw: "only " + assigned + " of 16384 slots have a node",
		Why:    "A lock whose name falls into one of the others cannot be had.",
		Remedy: "redis-cli --cluster fix <host>:<port>",
	}
}

func checkMigration(_ *exam, s *server) Finding {
	switch moves := s.slots; {
	case !s.isCluster():
		return Finding{}
	case moves.leaving > 0 || moves.arriving > 0:
		return Finding{
			ID: "cluster-migration", Severity: Warning, Saw: fmt.Sprintf("slots are on the move: %d leave it, %d arrive", moves.leaving, moves.arriving),
			Why:    "Until they have arrived, new locks in them wait, and semaphores cannot be released (TRYAGAIN). One that was forgotten stays so.",
			Remedy: "if nobody moves them just now: redis-cli --cluster fix <host>:<port>",
		}
	}
	return Finding{ID: "cluster-migration", Saw: "no slot is on the move"}
}

func checkCoverage(_ *exam, s *server) Finding {
	full, ok := s.config["cluster-require-full-coverage"]
	switch {
	case !s.isCluster():
		return Finding{}
	case !ok:
		return untold("cluster-coverage", "cluster-require-full-coverage", "+config|get")
	case full != "yes":
		return Finding{ID: "cluster-coverage", Saw: "the cluster goes on without slots that are down"}
	}
	return Finding{
		ID: "cluster-coverage", Severity: Note, Saw: "cluster-require-full-coverage is yes",
		Why:    "When one master and its replicas are down, no lock of the whole cluster can be had or renewed, not only those that lived there.",
		Remedy: "CONFIG SET cluster-require-full-coverage no, on every node",
	}
}

func checkClusterTimeout(e *exam, s *server) Finding {
	millis, ok := s.setting("cluster-node-timeout")
	switch {
	case !s.isCluster():
		return Finding{}
	case !ok:
		return untold("cluster-timeout", "cluster-node-timeout", "+config|get")
	}
	// The others agree that a node is down after up to twice that.
	return failOverTime("cluster-timeout", "cluster-node-timeout", millis, 2*time.Duration(millis)*time.Millisecond, e)
}

// failOverTime judges how long a fail-over may take.
func failOverTime(id, setting string, millis int64, takes time.Duration, e *exam) Finding {
	takes += time.Second // for the election
	if takes <= e.options.spare() {
		return Finding{ID: id, Saw: "a fail-over is quicker than a lease"}
	}
	return Finding{
		ID: id, Severity: Note,
		Saw: fmt.Sprintf("a fail-over may take %s (%s %d), a lease of %s lasts %s without renewal",
			short(takes), setting, millis, short(e.options.TTL), short(e.options.spare())),
		Why:    "Locks that are held on a master that dies are lost before the next one takes over; their holders are told in time.",
		Remedy: remedyFor(setting),
	}
}

func remedyFor(setting string) string {
	change := "CONFIG SET " + setting + " <less>, on every node"
	if strings.HasPrefix(setting, "down-after") {
		change = "SENTINEL SET <master> " + setting + " <less>, on every Sentinel"
	}
	return change + ", or a longer lease (Options.TTL, --ttl)"
}
