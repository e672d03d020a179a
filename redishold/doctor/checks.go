package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// check is one check. T is the type of what the check examines: a server, or the Sentinels.
// docs/doctor.md lists the ids.
type check[T any] struct {
	id  string
	run func(e *exam, about T) Finding
	texts
}

// texts has the texts of findings that have no texts of their own.
type texts struct {
	lacks string // if Unknown: the information that the server does not report
	right string // if Unknown: the ACL rules with which it reports that

	fine string // if OK: what the check found

	why    string // if worse: the reason why the finding matters
	remedy string // if worse: what to do
}

// found runs checks and returns their findings. If a check returns a Finding without Saw, the
// check does not apply. The parameter `absent` has the commands that the server does not have,
// in lower case.
func found[T any](e *exam, about T, checks []check[T], absent map[string]bool) []Finding {
	var all []Finding
	for _, c := range checks {
		f := c.run(e, about)
		if f.Saw == "" {
			continue
		}
		f.ID = c.id
		all = append(all, c.complete(f, absent))
	}
	return all
}

const setUser = "ACL SETUSER <user> "

// complete returns f with all its texts. The parameter `absent` has the commands that the server
// does not have, in lower case.
func (t texts) complete(f Finding, absent map[string]bool) Finding {
	switch f.Severity {
	case OK:
		f.Saw = cmp.Or(t.fine, f.Saw)
		f.Why = ""
		f.Remedy = ""
	case Unknown:
		f.Saw = "the server does not report " + t.lacks
		f.Remedy = setUser + t.right
		if none := commandsOf(t.right, absent); none != "" {
			f.Saw += ": it does not have the command " + none
			f.Remedy = ""
		}
	default:
		f.Why = cmp.Or(f.Why, t.why)
		f.Remedy = cmp.Or(f.Remedy, t.remedy)
	}
	return f
}

// commandsOf returns the commands that the ACL rules name, and that the server does not have.
// The parameter `absent` has all commands that the server does not have.
func commandsOf(rules string, absent map[string]bool) string {
	var names []string
	for rule := range strings.FieldsSeq(rules) {
		if name, _, _ := strings.Cut(strings.TrimPrefix(rule, "+"), "|"); absent[name] {
			names = append(names, strings.ToUpper(name))
		}
	}
	return strings.Join(names, ", ")
}

// saw returns a Finding with a formatted text.
func saw(s Severity, format string, args ...any) Finding {
	return Finding{Severity: s, Saw: fmt.Sprintf(format, args...)}
}

// unknown returns the Finding of a check without the information that it needs.
func unknown() Finding { return saw(Unknown, "nothing") }

// judge returns Unknown if the parameter `known` is false. If `known` is true, it returns s if
// the parameter `bad` is true, and OK if `bad` is false.
func judge(known, bad bool, s Severity) Severity {
	switch {
	case !known:
		return Unknown
	case bad:
		return s
	}
	return OK
}

func severe(bad bool) Severity {
	if bad {
		return Warning
	}
	return Note
}

// checkServer runs the checks of one server. If the server does not report INFO, it runs only
// the outerChecks.
func checkServer(e *exam, s *server) []Finding {
	if s.err != nil {
		return []Finding{{
			ID: "answers", Severity: Warning, Saw: "the server does not answer: " + s.err.Error(),
			Why:    "Locks on this server, now or after a failover, are unreachable from here.",
			Remedy: "start the server, or open the network between this machine and the server",
		}}
	}
	if s.info == nil {
		unreported := texts{lacks: "its version and its state (INFO)", right: "+info"}
		return append(found(e, s, outerChecks(), s.absent), unreported.complete(Finding{
			ID: "info", Severity: Unknown,
			Why: "The version, the role, the replicas and the persistence stay unknown. The library cannot warn that the server may evict locks.",
		}, s.absent))
	}
	checks := slices.Concat(serverChecks(), replicaChecks(), outerChecks())
	if s.isCluster() {
		checks = append(checks, clusterChecks()...)
	}
	return found(e, s, checks, s.absent)
}
