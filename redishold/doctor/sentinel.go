package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/redishold"
)

// sentinel has the replies of one Sentinel.
type sentinel struct {
	addr   string
	err    error             // the error of SENTINEL MASTER, or nil
	master map[string]string // the reply to SENTINEL MASTER
	quorum error             // the error of SENTINEL CKQUORUM, or nil
}

func (e *exam) readSentinels(ctx context.Context) []*sentinel {
	if e.options.Sentinels == nil {
		return nil
	}
	asks, err := e.options.Sentinels.Servers(ctx)
	if err != nil {
		return []*sentinel{{err: err}}
	}
	return examineAll(asks, func(addr string, ask Ask) *sentinel {
		ctx, cancel := context.WithTimeout(ctx, 2*askLimit)
		defer cancel()
		about := ask(ctx, "SENTINEL", "MASTER", e.options.Master)
		s := &sentinel{addr: addr, err: about.Err, master: pairs(about.Value)}
		if s.err == nil {
			s.quorum = ask(ctx, "SENTINEL", "CKQUORUM", e.options.Master).Err
		}
		return s
	})
}

// checkDeployment runs the checks of the Sentinels, which are not about one server.
func checkDeployment(e *exam) []Finding {
	switch {
	case e.options.Sentinels != nil:
	case !e.cluster() && e.hasSentinels():
		return []Finding{{
			ID: "sentinel-use", Severity: Warning, Saw: "Sentinels watch the server, but the URL names the server itself",
			Why:    "After a failover, this client still uses the old master, and cannot lock.",
			Remedy: "name the Sentinels in the URL: redis+sentinel://host:26379,host:26379/NAME",
		}}
	default:
		return nil
	}
	all := []Finding{checkSentinelsAnswer(e)}
	answering := slices.DeleteFunc(slices.Clone(e.sentinels), func(s *sentinel) bool { return s.err != nil })
	if len(answering) == 0 {
		return all
	}
	return append(all, found(e, answering, sentinelChecks(), nil)...)
}

func checkSentinelsAnswer(e *exam) Finding {
	silent := slices.DeleteFunc(slices.Clone(e.sentinels), func(s *sentinel) bool { return s.err == nil })
	if len(silent) == 0 {
		return Finding{ID: "sentinels-answer", Saw: "every Sentinel of the URL answers"}
	}
	f := Finding{
		ID: "sentinels-answer", Severity: Warning,
		Why:    "With fewer Sentinels, a failover may find no majority, and a client that starts may find no master.",
		Remedy: "start the Sentinel, or correct the URL, sentinel_username and sentinel_password",
	}
	if len(silent) == len(e.sentinels) {
		f.Severity = Danger
	}
	for _, s := range silent {
		f.Saw = "the Sentinel does not name the master: " + s.err.Error()
		f.Servers = append(f.Servers, s.addr)
	}
	return f
}

func sentinelChecks() []check[[]*sentinel] {
	return []check[[]*sentinel]{
		{"sentinel-master", checkSentinelMaster, texts{
			fine:   "all Sentinels name the same master",
			why:    "Two programs can lock on different servers, and hold the same lock.",
			remedy: "check again after some seconds; if the problem stays, run SENTINEL RESET <master> on the Sentinel that is wrong",
		}},
		{"sentinel-state", checkSentinelState, texts{
			fine:   "the Sentinels report the master as up",
			why:    "Locks are unreachable until the master is back or another server takes over.",
			remedy: "start the master, or: SENTINEL FAILOVER <master>",
		}},
		{"sentinels", checkSentinelCount, texts{
			why:    "A failover needs a majority of all Sentinels. With fewer than three Sentinels, the failure of one Sentinel prevents a failover.",
			remedy: "run three or more Sentinels, each on a separate machine",
		}},
		{"sentinel-quorum", checkQuorum, texts{
			fine:   "a majority of the Sentinels decides, and a majority is up",
			why:    "If the master dies, no server takes over.",
			remedy: "start the other Sentinels, or SENTINEL SET <master> quorum <less> on every Sentinel",
		}},
		{"sentinel-replicas", checkSentinelReplicas, texts{
			fine:   "the master has a replica that can take over",
			why:    "If the master dies, no server can take over.",
			remedy: "start a replica: REPLICAOF <master> <port>",
		}},
		{"sentinel-timeout", checkSentinelTimeout, texts{
			lacks:  "down-after-milliseconds",
			right:  "+sentinel",
			fine:   "a failover takes less time than a lease",
			why:    "If a master dies, its locks are lost, although their holders are notified before another server takes over.",
			remedy: "SENTINEL SET <master> down-after-milliseconds <less>, on every Sentinel, or a longer lease (Options.TTL, --ttl)",
		}},
	}
}

func checkSentinelMaster(_ *exam, sentinels []*sentinel) Finding {
	masters := map[string]bool{}
	for _, s := range sentinels {
		masters[net.JoinHostPort(s.master["ip"], s.master["port"])] = true
	}
	names := strings.Join(slices.Sorted(maps.Keys(masters)), ", ")
	return saw(judge(true, len(masters) > 1, Danger), "the Sentinels name different masters: %s", names)
}

func checkSentinelCount(_ *exam, sentinels []*sentinel) Finding {
	known := most(sentinels, "num-other-sentinels") + 1
	return saw(judge(true, known < 3, Warning), "the master has %d Sentinels", known)
}

func checkSentinelReplicas(_ *exam, sentinels []*sentinel) Finding {
	return saw(judge(true, most(sentinels, "num-slaves") <= 0, Warning), "the Sentinels know no replica of the master")
}

func checkSentinelTimeout(e *exam, sentinels []*sentinel) Finding {
	const setting = "down-after-milliseconds"
	slowest := most(sentinels, setting)
	return failoverTime(e, setting, slowest, slowest >= 0, 1)
}

// most returns the largest value that the Sentinels report for a field, or -1 if no Sentinel
// reports the field.
func most(sentinels []*sentinel, field string) int64 {
	n := int64(-1)
	for _, s := range sentinels {
		if value, ok := number(s.master, field); ok {
			n = max(n, value)
		}
	}
	return n
}

func checkSentinelState(_ *exam, sentinels []*sentinel) Finding {
	for _, s := range sentinels {
		flags := strings.Split(s.master["flags"], ",")
		if slices.Contains(flags, "failover_in_progress") {
			return Finding{
				Severity: Warning, Servers: []string{s.addr}, Saw: "a failover is in progress",
				Why:    "Locks are refused for a moment, and the last grants may be forgotten.",
				Remedy: "wait, and check again",
			}
		}
		down := func(flag string) bool { return flag == "o_down" || flag == "s_down" || flag == "disconnected" }
		if slices.ContainsFunc(flags, down) {
			return Finding{
				Severity: Danger, Servers: []string{s.addr},
				Saw: "this Sentinel reports the master as down: " + s.master["flags"],
			}
		}
	}
	return saw(OK, "the master is up")
}

func checkQuorum(_ *exam, sentinels []*sentinel) Finding {
	for _, s := range sentinels {
		if reply := (*redishold.ReplyError)(nil); errors.As(s.quorum, &reply) {
			return Finding{Severity: Danger, Servers: []string{s.addr}, Saw: reply.Text}
		}
	}
	for _, s := range sentinels {
		quorum, _ := number(s.master, "quorum")
		others, _ := number(s.master, "num-other-sentinels")
		all := others + 1
		f := Finding{
			Servers: []string{s.addr}, Saw: fmt.Sprintf("the quorum is %d of %d Sentinels", quorum, all),
			Remedy: fmt.Sprintf("SENTINEL SET <master> quorum %d, on every Sentinel", all/2+1),
		}
		switch {
		case quorum >= all && all > 1:
			f.Severity = Warning
			f.Why = "The failure of one Sentinel prevents a failover."
			return f
		case all >= 3 && quorum <= all/2:
			f.Severity = Note
			f.Why = "Fewer than half of the Sentinels can report the master as dead, if a majority allows the failover. A failover without need loses locks."
			return f
		}
	}
	return saw(OK, "a majority decides")
}
