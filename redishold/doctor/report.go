package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/redishold/internal/clients"
)

// Severity is how much a finding matters for locks.
type Severity int

// Severities, from harmless to dangerous.
const (
	OK      Severity = iota // checked, no problem
	Unknown                 // the server did not report what the check needs
	Note                    // useful to know; many operators accept this
	Warning                 // locks may be lost or unreachable later, under conditions that are likely
	Danger                  // locks are not safe now, or do not work
)

func severities() []string { return []string{"ok", "unknown", "note", "warning", "danger"} }

// String returns the name in lower case, as in JSON.
func (s Severity) String() string {
	if names := severities(); s >= 0 && int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("severity %d", int(s))
}

// ParseSeverity returns the Severity for which String returns the given name.
func ParseSeverity(name string) (Severity, error) {
	if i := slices.Index(severities(), name); i >= 0 {
		return Severity(i), nil
	}
	return 0, fmt.Errorf("%q is none of %s", name, strings.Join(severities(), ", "))
}

// MarshalText returns the name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name. It returns an error for an unknown name.
func (s *Severity) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSeverity(string(text))
	return err
}

// Finding is the result of one check. The result is the same on all servers in the field
// Servers.
type Finding struct {
	// ID is the name of the check. docs/doctor.md lists the IDs. They do not change.
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`

	Servers []string `json:"servers,omitempty"` // addresses; empty if the finding is about all servers

	Saw    string `json:"saw"`              // what the check found
	Why    string `json:"why,omitempty"`    // why the finding matters for locks
	Remedy string `json:"remedy,omitempty"` // what to do, with a command if there is one
}

// Server is a server that was checked.
type Server struct {
	Address string `json:"address"`
	Version string `json:"version,omitempty"` // "Redis 7.0.15"
	Role    string `json:"role,omitempty"`    // "master", "replica", "sentinel", or the name of a role in another store
}

// ReportVersion changes when the meaning of the JSON of a Report changes. It does not
// change for new fields and new findings.
const ReportVersion = 1

// Report is the result of an examination. It contains no passwords.
type Report struct {
	Version    int           `json:"version"` // ReportVersion
	At         time.Time     `json:"at"`
	Deployment string        `json:"deployment"` // "standalone", "replicated", "sentinel", "cluster"; for ZooKeeper "ensemble", for MySQL also "galera"
	TTL        time.Duration `json:"-"`          // the lease of the programs
	TTLMillis  int64         `json:"ttl_ms"`     // the same time in milliseconds
	Servers    []Server      `json:"servers"`
	Worst      Severity      `json:"worst"`
	Findings   []Finding     `json:"findings"` // the worst first
}

func (e *exam) report() *Report {
	var servers []Server
	for _, s := range e.servers {
		servers = append(servers, Server{Address: s.addr, Version: plain(s.version()), Role: s.role()})
	}
	for _, s := range e.sentinels {
		servers = append(servers, Server{Address: s.addr, Role: "sentinel"})
	}
	return NewReport(e.deployment(), e.options.TTL, servers, e.findings)
}

// NewReport returns the report of an examination that ends now. The store may be another one
// than Redis. NewReport joins findings that differ only in their servers, and sorts the
// findings, the worst first.
func NewReport(deployment string, ttl time.Duration, servers []Server, findings []Finding) *Report {
	r := &Report{
		Version: ReportVersion, At: time.Now().UTC().Truncate(time.Second),
		Deployment: deployment, TTL: ttl, TTLMillis: ttl.Milliseconds(), Servers: servers, Findings: merge(findings),
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
	case e.hasSentinels():
		return "sentinel"
	case slices.ContainsFunc(e.servers, func(s *server) bool { return s.replicas() > 0 }):
		return "replicated"
	}
	return "standalone"
}

// merge returns findings, the worst first. It joins the findings that differ only in their
// servers into one.
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

// plain returns a text of a server for a terminal. It replaces each character that is not safe
// there by a question mark, and cuts a long text.
func plain(s string) string {
	return clients.Cut(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?")), 400)
}
