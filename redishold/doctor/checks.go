package doctor

import (
	"cmp"
	_ "embed" // findings.txt
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// check is one check. T is the type of what the check examines: a server, or the Sentinels.
// docs/doctor.md lists the ids.
type check[T any] struct {
	id  string
	run func(e *exam, about T) Finding
}

// found runs checks and returns their findings. If a check returns a Finding without Saw, the
// check does not apply.
func found[T any](e *exam, about T, checks []check[T]) []Finding {
	var all []Finding
	for _, c := range checks {
		if f := c.run(e, about); f.Saw != "" {
			f.ID = c.id
			all = append(all, f)
		}
	}
	return all
}

const setUser = "ACL SETUSER <user> "

// findingTexts has a block of default texts for each id, and for its special cases. A block may
// have these texts. For Unknown: `lacks` is the information that the server does not report,
// and `right` the permission for it. For OK: `fine` is what the check found. For other
// severities: `why` is the reason why the finding matters, and `remedy` is what to do.
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

// complete returns f with all its texts. It takes a missing text from the block of the special
// case. If that block does not have the text, it takes the text from the block of the id. The
// parameter `absent` has the commands that the server does not have, in lower case.
func (f Finding) complete(texts map[string]map[string]string, absent map[string]bool) Finding {
	text := func(name string) string { return cmp.Or(texts[f.ID+"/"+f.special][name], texts[f.ID][name]) }
	switch {
	case f.Severity == OK:
		f.Saw, f.Why, f.Remedy = cmp.Or(text("fine"), f.Saw), "", ""
	case f.Severity != Unknown:
		f.Why, f.Remedy = cmp.Or(f.Why, text("why")), cmp.Or(f.Remedy, text("remedy"))
	case f.Remedy == "" && text("lacks") != "":
		f.Saw, f.Remedy = "the server does not report "+text("lacks"), setUser+text("right")
		if none := commandsOf(text("right"), absent); none != "" {
			f.Saw, f.Remedy = f.Saw+": it does not have the command "+none, ""
		}
	}
	f.Saw, f.special = plain(f.Saw), ""
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

// as returns f as a special case of its check, for which findings.txt has a block of its own.
func (f Finding) as(special string) Finding {
	f.special = special
	return f
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
	checks := outerChecks()
	switch {
	case s.err != nil:
		return []Finding{{ID: "answers", Severity: Warning, Saw: "the server does not answer: " + s.err.Error()}}
	case s.info == nil:
		return append(found(e, s, checks), Finding{
			ID: "info", Severity: Unknown,
			Why: "The version, the role, the replicas and the persistence stay unknown. The library cannot warn that the server may evict locks.",
		})
	case s.isCluster():
		checks = append(checks, clusterChecks()...)
	}
	return found(e, s, slices.Concat(serverChecks(), checks))
}
