package doctor

import (
	"cmp"
	_ "embed" // findings.txt
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// check is one look at a T: a server, or Sentinels. Its id is in docs/doctor.md as well.
type check[T any] struct {
	id   string
	look func(e *exam, about T) Finding
}

// found returns what checks find. A look that sees nothing does not apply.
func found[T any](e *exam, about T, checks []check[T]) []Finding {
	var all []Finding
	for _, c := range checks {
		if f := c.look(e, about); f.Saw != "" {
			f.ID = c.id
			all = append(all, f)
		}
	}
	return all
}

const setUser = "ACL SETUSER <user> "

// findingTexts has a block for each id, and for its special cases, with what a finding
// says that has no words of its own: of Unknown, what a server lacks the right to tell
// (lacks, right); of OK, what the check found (fine); of what is worse, why it matters
// and what to do (why, remedy).
//
//go:embed findings.txt
var findingTexts string

func parseTexts() map[string]map[string]string {
	all := map[string]map[string]string{}
	for block := range strings.SplitSeq(findingTexts, "\n\n") {
		id, lines, _ := strings.Cut(block, "\n")
		all[id] = wire.Fields(lines, "\n", ": ")
	}
	return all
}

// complete returns f with the texts of its id, or of what it is of that. absent are the
// commands that its server does not have, in lower case.
func (f Finding) complete(texts map[string]map[string]string, absent map[string]bool) Finding {
	text := func(name string) string { return cmp.Or(texts[f.ID+"/"+f.special][name], texts[f.ID][name]) }
	switch {
	case f.Severity == OK:
		f.Saw, f.Why, f.Remedy = cmp.Or(text("fine"), f.Saw), "", ""
	case f.Severity != Unknown:
		f.Why, f.Remedy = cmp.Or(f.Why, text("why")), cmp.Or(f.Remedy, text("remedy"))
	case f.Remedy == "" && text("lacks") != "":
		f.Saw, f.Remedy = "the server does not tell "+text("lacks"), setUser+text("right")
		if none := commandsOf(text("right"), absent); none != "" {
			f.Saw, f.Remedy = f.Saw+": it does not have the command "+none, ""
		}
	}
	f.Saw, f.special = plain(f.Saw), ""
	return f
}

// commandsOf returns those commands of ACL rules that are absent.
func commandsOf(rules string, absent map[string]bool) string {
	var names []string
	for rule := range strings.FieldsSeq(rules) {
		if name, _, _ := strings.Cut(strings.TrimPrefix(rule, "+"), "|"); absent[name] {
			names = append(names, strings.ToUpper(name))
		}
	}
	return strings.Join(names, ", ")
}

// as says which special case f is: findings.txt has a block of its own for that.
func (f Finding) as(special string) Finding {
	f.special = special
	return f
}

func saw(s Severity, format string, args ...any) Finding {
	return Finding{Severity: s, Saw: fmt.Sprintf(format, args...)}
}

// unknown is what a check finds that lacks what it needs.
func unknown() Finding { return saw(Unknown, "nothing") }

// judge is Unknown unless known, and s if that is bad.
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

// checkServer runs the checks of a single server, as far as it shows itself.
func checkServer(e *exam, s *server) []Finding {
	checks := outerChecks()
	switch {
	case s.err != nil:
		return []Finding{{ID: "answers", Severity: Warning, Saw: "it does not answer: " + s.err.Error()}}
	case s.info == nil:
		return append(found(e, s, checks), Finding{
			ID: "info", Severity: Unknown,
			Why: "Version, role, replicas and persistence stay unknown, and the library cannot tell that locks may be evicted.",
		})
	case s.isCluster():
		checks = append(checks, clusterChecks()...)
	}
	return found(e, s, slices.Concat(serverChecks(), checks))
}
