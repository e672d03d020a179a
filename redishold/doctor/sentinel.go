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
		return []Finding{{ID: "sentinel-use", Severity: Warning, Saw: "Sentinels watch the server, but the URL names the server itself"}}
	default:
		return nil
	}
	all := []Finding{checkSentinelsAnswer(e)}
	answering := slices.DeleteFunc(slices.Clone(e.sentinels), func(s *sentinel) bool { return s.err != nil })
	if len(answering) == 0 {
		return all
	}
	return append(all, found(e, answering, sentinelChecks())...)
}

func checkSentinelsAnswer(e *exam) Finding {
	f := Finding{ID: "sentinels-answer"}
	for _, s := range e.sentinels {
		if s.err != nil {
			f.Severity, f.Saw = Warning, "the Sentinel does not name the master: "+s.err.Error()
			f.Servers = append(f.Servers, s.addr)
		}
	}
	if f.Severity == Warning && len(f.Servers) == len(e.sentinels) {
		f.Severity = Danger
	}
	return f
}

func sentinelChecks() []check[[]*sentinel] {
	return []check[[]*sentinel]{
		{"sentinel-master", func(_ *exam, sentinels []*sentinel) Finding {
			masters := map[string]bool{}
			for _, s := range sentinels {
				masters[net.JoinHostPort(s.master["ip"], s.master["port"])] = true
			}
			names := strings.Join(slices.Sorted(maps.Keys(masters)), ", ")
			return saw(judge(true, len(masters) > 1, Danger), "the Sentinels name different masters: %s", names)
		}},
		{"sentinel-state", checkSentinelState},
		{"sentinels", func(_ *exam, sentinels []*sentinel) Finding {
			known := most(sentinels, "num-other-sentinels") + 1
			return saw(judge(true, known < 3, Warning), "the master has %d Sentinels", known)
		}},
		{"sentinel-quorum", checkQuorum},
		{"sentinel-replicas", func(_ *exam, sentinels []*sentinel) Finding {
			return saw(judge(true, most(sentinels, "num-slaves") <= 0, Warning), "the Sentinels know no replica of the master")
		}},
		{"sentinel-timeout", func(e *exam, sentinels []*sentinel) Finding {
			slowest := most(sentinels, "down-after-milliseconds")
			return failoverTime(e, "down-after-milliseconds", slowest, slowest >= 0, 1)
		}},
	}
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
		var f Finding
		flags := strings.Split(s.master["flags"], ",")
		down := func(flag string) bool { return flag == "o_down" || flag == "s_down" || flag == "disconnected" }
		switch {
		case slices.Contains(flags, "failover_in_progress"):
			f = saw(Warning, "a failover is in progress").as("changing")
		case slices.ContainsFunc(flags, down):
			f = saw(Danger, "this Sentinel reports the master as down: %s", s.master["flags"])
		default:
			continue
		}
		f.Servers = []string{s.addr}
		return f
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
		f := Finding{Severity: Warning, Servers: []string{s.addr}, Saw: fmt.Sprintf("the quorum is %d of %d Sentinels", quorum, all)}
		switch {
		case quorum >= all && all > 1:
			f.special = "all"
		case all >= 3 && quorum <= all/2:
			f.Severity, f.special = Note, "few"
		default:
			continue
		}
		f.Remedy = fmt.Sprintf("SENTINEL SET <master> quorum %d, on every Sentinel", all/2+1)
		return f
	}
	return saw(OK, "a majority decides")
}
