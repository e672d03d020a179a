package output

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/plural"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// ReportText returns a report for people. It has the findings, the worst first, and the
// number of findings of each severity. If `everything` is false, it omits checks that found
// no problem.
func ReportText(r *doctor.Report, everything bool) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, checked for a lease of %s\n\n", describeServers(r), r.TTL)
	counts := map[doctor.Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
		if f.Severity > doctor.OK || everything {
			printFinding(&text, r, f)
		}
	}
	fmt.Fprintf(&text, "%s\n", summary(counts))
	return text.String()
}

func printFinding(text *strings.Builder, r *doctor.Report, f doctor.Finding) {
	if f.Severity == doctor.OK {
		fmt.Fprintf(text, "%-8s %s: %s%s\n", f.Severity, f.ID, f.Saw, whereFound(r, f))
		return
	}
	fmt.Fprintf(text, "%-8s %s%s\n", f.Severity, f.ID, whereFound(r, f))
	fmt.Fprintf(text, "         %s\n", f.Saw)
	if f.Why != "" {
		fmt.Fprintf(text, "         %s\n", f.Why)
	}
	if f.Remedy != "" {
		fmt.Fprintf(text, "         -> %s\n", f.Remedy)
	}
	text.WriteByte('\n')
}

// whereFound returns the servers of a finding, in parentheses. It returns "" if the finding
// is about all servers.
func whereFound(r *doctor.Report, f doctor.Finding) string {
	const shown = 3
	data := 0
	for _, s := range r.Servers {
		if s.Role != "sentinel" {
			data++
		}
	}
	switch n := len(f.Servers); {
	case n == 0 || n == data:
		return ""
	case n > shown:
		return fmt.Sprintf("  (%s and %d more)", strings.Join(f.Servers[:shown], ", "), n-shown)
	}
	return "  (" + strings.Join(f.Servers, ", ") + ")"
}

func describeServers(r *doctor.Report) string {
	roles := map[string]int{}
	var versions []string
	for _, s := range r.Servers {
		roles[s.Role]++
		if s.Version != "" && !slices.Contains(versions, s.Version) {
			versions = append(versions, s.Version)
		}
	}
	parts := []string{r.Deployment}
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		if role != "" && role != "standalone" { // "standalone" is the role of a single ZooKeeper
			parts = append(parts, plural.Count(roles[role], role))
		}
	}
	return strings.Join(append(parts, versions...), ", ")
}

func summary(counts map[doctor.Severity]int) string {
	var parts []string
	for s := doctor.Danger; s >= doctor.OK; s-- {
		n := counts[s]
		text := plural.Count(n, s.String())
		switch s {
		case doctor.Unknown:
			text = fmt.Sprintf("%d unknown", n)
		case doctor.OK:
			text = fmt.Sprintf("%d ok", n)
		}
		if n > 0 {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}
