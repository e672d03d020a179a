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

// Severity says how much a finding matters for locks.
type Severity int

// From harmless to dangerous.
const (
	OK      Severity = iota // looked at, and in order
	Unknown                 // the server did not tell
	Note                    // good to know; many live with it
	Warning                 // locks may be lost, or unreachable, in circumstances that will come
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
func (s *Severity) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSeverity(string(text))
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

	special string // see as
}

// Server is a server that was looked at.
type Server struct {
	Address string `json:"address"`
	Version string `json:"version,omitempty"` // "Redis 7.0.15"
	Role    string `json:"role,omitempty"`    // "master", "replica", "sentinel"; what another store calls it
}

// ReportVersion is raised when the JSON of a Report changes its meaning. New
// fields and new findings do not.
const ReportVersion = 1

// Report is the outcome of an examination. It contains no passwords.
type Report struct {
	Version    int           `json:"version"` // ReportVersion
	At         time.Time     `json:"at"`
	Deployment string        `json:"deployment"` // "standalone", "replicated", "sentinel", "cluster"; of ZooKeeper "ensemble", of MySQL also "galera"
	TTL        time.Duration `json:"-"`          // the lease that it was judged for
	TTLMillis  int64         `json:"ttl_ms"`     // the same
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

// NewReport returns the report of an examination that ends now, also of a store that is
// no Redis. Findings that are the same but for their servers become one, and the worst
// comes first.
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
	case e.watched():
		return "sentinel"
	case slices.ContainsFunc(e.servers, func(s *server) bool { return s.replicas() > 0 }):
		return "replicated"
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
	return clients.Cut(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?")), 400)
}
