package output

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// PrintReport prints a report for people: the findings, the worst first, and how many there
// are of each severity. If everything is false, it omits checks without a problem.
func PrintReport(w io.Writer, r *doctor.Report, everything bool) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, judged for a lease of %s\n\n", describeServers(r), r.TTL)
	counts := map[doctor.Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
		if f.Severity > doctor.OK || everything {
			printFinding(&text, r, f)
		}
	}
	fmt.Fprintf(&text, "%s\n", summary(counts))
	_, err := io.WriteString(w, text.String())
	return err
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

// whereFound returns the servers of a finding, or "" if these are all servers.
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
	seen := map[string]bool{}
	for _, s := range r.Servers {
		roles[s.Role]++
		if s.Version != "" && !seen[s.Version] {
			seen[s.Version] = true
			versions = append(versions, s.Version)
		}
	}
	parts := []string{r.Deployment}
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		switch n := roles[role]; {
		case role == "" || role == "standalone": // a single ZooKeeper reports this role
		case n == 1:
			parts = append(parts, "1 "+role)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", n, role))
		}
	}
	return strings.Join(append(parts, versions...), ", ")
}

func summary(counts map[doctor.Severity]int) string {
	var parts []string
	for _, s := range []struct {
		severity  doctor.Severity
		one, many string
	}{
		{doctor.Danger, "danger", "dangers"},
		{doctor.Warning, "warning", "warnings"},
		{doctor.Note, "note", "notes"},
		{doctor.Unknown, "not known", "not known"},
		{doctor.OK, "in order", "in order"},
	} {
		switch n := counts[s.severity]; {
		case n == 1:
			parts = append(parts, "1 "+s.one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, s.many))
		}
	}
	return strings.Join(parts, ", ")
}
