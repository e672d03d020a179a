package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// sentinel is what one Sentinel says of the master.
type sentinel struct {
	addr   string
	err    error             // it does not answer, or refuses
	master map[string]string // SENTINEL MASTER
	quorum error             // what SENTINEL CKQUORUM refused
}

// visitSentinels asks all Sentinels, side by side.
func (e *exam) visitSentinels(ctx context.Context) []*sentinel {
	if e.options.Sentinels == nil {
		return nil
	}
	asks, err := e.options.Sentinels.Servers(ctx)
	if err != nil {
		return []*sentinel{{err: err}}
	}
	var all sync.WaitGroup
	var sentinels []*sentinel
	for _, addr := range slices.Sorted(maps.Keys(asks)) {
		s := &sentinel{addr: addr}
		sentinels = append(sentinels, s)
		all.Go(func() { s.examine(ctx, asks[addr], e.options.Master) })
	}
	all.Wait()
	return sentinels
}

func (s *sentinel) examine(ctx context.Context, ask Ask, master string) {
	ctx, cancel := context.WithTimeout(ctx, 2*askLimit)
	defer cancel()
	about := ask(ctx, "SENTINEL", "MASTER", master)
	if about.Err != nil {
		s.err = about.Err
		return
	}
	s.master = pairs(about.Value)
	var reply *redishold.ReplyError
	if r := ask(ctx, "SENTINEL", "CKQUORUM", master); errors.As(r.Err, &reply) {
		s.quorum = reply
	}
}

// number returns a number of SENTINEL MASTER, -1 if there is none.
func (s *sentinel) number(field string) int64 {
	n, err := strconv.ParseInt(s.master[field], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func (s *sentinel) masterAddr() string { return net.JoinHostPort(s.master["ip"], s.master["port"]) }

// checkDeployment runs the checks of what is nobody's alone: the Sentinels.
func checkDeployment(e *exam) []Finding {
	if e.options.Sentinels == nil {
		if !e.cluster() && e.watched() {
			return []Finding{{
				ID: "sentinel-use", Severity: Warning, Saw: "Sentinels watch the server, but the URL names the server itself",
				Why:    "After a fail-over this client stays with the old master, or finds it dead.",
				Remedy: "name the Sentinels in the URL: redis+sentinel://host:26379,host:26379/NAME",
			}}
		}
		return nil
	}
	found := []Finding{checkSentinelsAnswer(e)}
	var answering []*sentinel
	for _, s := range e.sentinels {
		if s.err == nil {
			answering = append(answering, s)
		}
	}
	if len(answering) == 0 {
		return found
	}
	return append(found, checkSentinels(e, answering)...)
}

func checkSentinelsAnswer(e *exam) Finding {
	var silent []string
	var why error
	for _, s := range e.sentinels {
		if s.err != nil {
			silent, why = append(silent, s.addr), s.err
		}
	}
	if len(silent) == 0 {
		return Finding{ID: "sentinels-answer", Saw: "every Sentinel of the URL answers"}
	}
	f := Finding{
		ID: "sentinels-answer", Severity: Warning, Servers: silent,
		Saw:    "it does not tell of the master: " + why.Error(),
		Why:    "With fewer Sentinels a fail-over may find no majority, and a client that starts may find no master.",
		Remedy: "start it, or correct the URL, sentinel_username and sentinel_password",
	}
	if len(silent) == len(e.sentinels) {
		f.Severity = Danger
	}
	return f
}

func checkSentinels(e *exam, sentinels []*sentinel) []Finding {
	found := []Finding{
		checkSentinelMaster(sentinels), checkSentinelState(sentinels), checkSentinelCount(sentinels),
		checkSentinelQuorum(sentinels), checkSentinelReplicas(sentinels),
	}
	slowest := slices.MaxFunc(sentinels, func(a, b *sentinel) int {
		return int(a.number("down-after-milliseconds") - b.number("down-after-milliseconds"))
	}).number("down-after-milliseconds")
	if slowest < 0 {
		return append(found, untold("sentinel-timeout", "down-after-milliseconds", "+sentinel"))
	}
	return append(found, failOverTime("sentinel-timeout", "down-after-milliseconds", slowest, time.Duration(slowest)*time.Millisecond, e))
}

func checkSentinelMaster(sentinels []*sentinel) Finding {
	var masters []string
	for _, s := range sentinels {
		masters = append(masters, s.masterAddr())
	}
	slices.Sort(masters)
	if masters = slices.Compact(masters); len(masters) == 1 {
		return Finding{ID: "sentinel-master", Saw: "all Sentinels name the same master"}
	}
	return Finding{
		ID: "sentinel-master", Severity: Danger, Saw: "the Sentinels name different masters: " + strings.Join(masters, ", "),
		Why:    "Two programs may lock on different servers, and hold the same lock.",
		Remedy: "look again in some seconds; if it stays, SENTINEL RESET <master> on the one that is wrong",
	}
}

func checkSentinelState(sentinels []*sentinel) Finding {
	for _, s := range sentinels {
		flags := strings.Split(s.master["flags"], ",")
		switch {
		case slices.Contains(flags, "failover_in_progress"):
			return Finding{
				ID: "sentinel-state", Severity: Warning, Servers: []string{s.addr}, Saw: "a fail-over is in progress",
				Why:    "Locks are refused for a moment, and those that were granted last may be forgotten.",
				Remedy: "wait, and look again",
			}
		case slices.Contains(flags, "o_down"), slices.Contains(flags, "s_down"), slices.Contains(flags, "disconnected"):
			return Finding{
				ID: "sentinel-state", Severity: Danger, Servers: []string{s.addr},
				Saw:    "the master is down, as this Sentinel sees it: " + s.master["flags"],
				Why:    "Locks are out of reach until it is back or another one takes over.",
				Remedy: "start it, or: SENTINEL FAILOVER <master>",
			}
		}
	}
	return Finding{ID: "sentinel-state", Saw: "the master is up, as the Sentinels see it"}
}

func checkSentinelCount(sentinels []*sentinel) Finding {
	known := int64(0)
	for _, s := range sentinels {
		known = max(known, s.number("num-other-sentinels")+1)
	}
	if known >= 3 {
		return Finding{ID: "sentinels", Saw: fmt.Sprintf("%d Sentinels", known)}
	}
	return Finding{
		ID: "sentinels", Severity: Warning, Saw: fmt.Sprintf("%d Sentinels", known),
		Why:    "A fail-over needs a majority of all Sentinels. With fewer than three, the death of one prevents it.",
		Remedy: "run three or more, on machines of their own",
	}
}

func checkSentinelQuorum(sentinels []*sentinel) Finding {
	for _, s := range sentinels {
		if s.quorum != nil {
			return Finding{
				ID: "sentinel-quorum", Severity: Danger, Servers: []string{s.addr}, Saw: s.quorum.Error(),
				Why:    "Nobody takes over when the master dies.",
				Remedy: "bring the other Sentinels back, or SENTINEL SET <master> quorum <less> on every Sentinel",
			}
		}
	}
	for _, s := range sentinels {
		quorum, all := s.number("quorum"), s.number("num-other-sentinels")+1
		f := Finding{ID: "sentinel-quorum", Servers: []string{s.addr}, Saw: fmt.Sprintf("the quorum is %d of %d Sentinels", quorum, all)}
		switch {
		case quorum >= all && all > 1:
			f.Severity = Warning
			f.Why = "The death of one Sentinel prevents a fail-over."
		case all >= 3 && quorum <= all/2:
			f.Severity = Note
			f.Why = "Fewer than half of the Sentinels are enough to call the master dead, if a majority lets them: fail-overs without need lose locks."
		default:
			continue
		}
		f.Remedy = fmt.Sprintf("SENTINEL SET <master> quorum %d, on every Sentinel", all/2+1)
		return f
	}
	return Finding{ID: "sentinel-quorum", Saw: "a majority of the Sentinels decides, and there is one"}
}

func checkSentinelReplicas(sentinels []*sentinel) Finding {
	for _, s := range sentinels {
		if s.number("num-slaves") > 0 {
			return Finding{ID: "sentinel-replicas", Saw: "there is a replica to promote"}
		}
	}
	return Finding{
		ID: "sentinel-replicas", Severity: Warning, Saw: "the Sentinels know no replica of the master",
		Why:    "Nobody can take over when the master dies.",
		Remedy: "start a replica: REPLICAOF <master> <port>",
	}
}
