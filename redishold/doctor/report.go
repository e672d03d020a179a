package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Severity says how much a finding matters for locks.
type Severity int

// From harmless to dangerous.
const (
	OK      Severity = iota // looked at, and in order
	Unknown                 // the server did not tell
	Note                    // good to know; many live with it
	Warning                 // locks may be lost, or out of reach, in circumstances that will come
	Danger                  // locks are not safe, or do not work, now
)

func severities() []string { return []string{"ok", "unknown", "note", "warning", "danger"} }

// String returns the name in lower case, as in JSON.
func (s Severity) String() string {
	if names := severities(); s >= 0 && int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("severity %d", int(s))
}

// ParseSeverity reads what String returns.
func ParseSeverity(name string) (Severity, error) {
	if i := slices.Index(severities(), name); i >= 0 {
		return Severity(i), nil
	}
	return 0, fmt.Errorf("%q is none of %s", name, strings.Join(severities(), ", "))
}

// MarshalText returns the name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name; another one is an error.
func (s *Severity) UnmarshalText(text []byte) error {
	parsed, err := ParseSeverity(string(text))
	if err == nil {
		*s = parsed
	}
	return err
}

// Finding is what one check found, alike on all Servers.
type Finding struct {
	// ID names the check. IDs and their meaning are in docs/doctor.md, and stay.
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`

	Servers []string `json:"servers,omitempty"` // addresses; none if it is about all together

	Saw    string `json:"saw"`              // what was seen
	Why    string `json:"why,omitempty"`    // why it matters for locks
	Remedy string `json:"remedy,omitempty"` // what to do: a command to type, where one helps
}

// Server is a server that was looked at.
type Server struct {
	Address string `json:"address"`
	Version string `json:"version,omitempty"` // "Redis 7.0.15"
	Role    string `json:"role,omitempty"`    // "master", "replica" or "sentinel"
}

// ReportVersion is raised when the JSON of a Report changes its meaning. New
// fields and new findings do not.
const ReportVersion = 1

// Report is the outcome of an examination. It contains no passwords.
type Report struct {
	Version    int           `json:"v"` // ReportVersion
	At         time.Time     `json:"at"`
	Deployment string        `json:"deployment"` // "standalone", "replicated", "sentinel" or "cluster"
	TTL        time.Duration `json:"ttl_ns"`     // the lease that it was judged for
	Servers    []Server      `json:"servers"`
	Worst      Severity      `json:"worst"`
	Findings   []Finding     `json:"findings"` // the worst first
}

// report puts together what was found.
func (e *exam) report() *Report {
	r := &Report{
		Version: ReportVersion, At: time.Now().UTC().Truncate(time.Second),
		Deployment: e.deployment(), TTL: e.options.TTL, Findings: merge(e.findings),
	}
	for _, s := range e.servers {
		r.Servers = append(r.Servers, Server{Address: s.addr, Version: plain(s.version()), Role: s.role()})
	}
	for _, s := range e.sentinels {
		r.Servers = append(r.Servers, Server{Address: s.addr, Role: "sentinel"})
	}
	for _, f := range r.Findings {
		r.Worst = max(r.Worst, f.Severity)
	}
	return r
}

func (e *exam) deployment() string {
	switch {
	case e.cluster():
		return "cluster"
	case e.watched():
		return "sentinel"
	}
	for _, s := range e.servers {
		if s.replicas() > 0 {
			return "replicated"
		}
	}
	return "standalone"
}

// merge makes one finding of those that are the same but for their servers, and
// puts the worst first.
func merge(findings []Finding) []Finding {
	var merged []Finding
	for _, f := range findings {
		i := slices.IndexFunc(merged, func(m Finding) bool {
			return m.ID == f.ID && m.Severity == f.Severity && m.Saw == f.Saw && m.Why == f.Why && m.Remedy == f.Remedy
		})
		if i < 0 {
			merged = append(merged, f)
			continue
		}
		merged[i].Servers = append(slices.Clip(merged[i].Servers), f.Servers...)
	}
	slices.SortStableFunc(merged, func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	return merged
}

// plain returns what a server said fit for a terminal.
func plain(s string) string {
	const most = 400
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
