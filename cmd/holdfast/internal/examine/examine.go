// Package examine asks a store that is not Redis what endangers the locks in it.
//
// Each store has a file, which asks the servers for their settings and state, and judges
// these. The requests change nothing. If a server does not report something, the finding has
// the severity doctor.Unknown. tryout.go takes a test lock, as programs do.
package examine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// Facts are what the servers of a store reported of themselves.
type Facts struct {
	Deployment string // "standalone", "ensemble" and the like
	Servers    []doctor.Server
	Findings   []doctor.Finding
}

// Ask asks the servers of a store. It returns an error if no server could be asked.
type Ask func(ctx context.Context, o *doctor.Options) (Facts, error)

// add records a server and the findings about it.
func (f *Facts) add(s doctor.Server, findings ...doctor.Finding) {
	f.Servers = append(f.Servers, s)
	for _, finding := range findings {
		finding.Servers = []string{s.Address}
		f.Findings = append(f.Findings, finding)
	}
}

// Store asks the servers, takes a test lock in b, and returns the findings, the worst first.
// It uses the TTL, the Margin and the Name of o, which have no defaults here. It returns an
// error if no server could be asked, or if ctx was cancelled.
func Store(ctx context.Context, b driver.Backend, ask Ask, o *doctor.Options) (*doctor.Report, error) {
	facts, err := ask(ctx, o)
	if err != nil {
		return nil, err
	}
	findings := append(facts.Findings, fencing(b.Info().Caps.Fencing))
	findings = append(findings, tryOut(ctx, b, o)...)
	if err := ctx.Err(); errors.Is(err, context.Canceled) { // after a timeout the findings count
		return nil, err
	}
	return doctor.NewReport(facts.Deployment, o.TTL, facts.Servers, findings), nil
}

// fencing judges whether locks come with tokens.
func fencing(tokens bool) doctor.Finding {
	const id = "fencing"
	if tokens {
		return saw(id, doctor.OK, "locks come with fencing tokens")
	}
	return because(saw(id, doctor.Note, "the table has no room for fencing tokens"),
		"a holder that stood still may write after its lock was granted to another", "layout=lease, where no Java program shares the locks; else a check of your own at each write, such as a version column")
}

// saw returns a finding with a text of what was found. If it is not in order, because adds
// the other fields.
func saw(id string, s doctor.Severity, format string, args ...any) doctor.Finding {
	return doctor.Finding{ID: id, Severity: s, Saw: fmt.Sprintf(format, args...)}
}

// because adds why a finding matters and what to do, unless the finding is in order.
func because(f doctor.Finding, why, remedy string) doctor.Finding {
	if f.Severity > doctor.OK {
		f.Why, f.Remedy = why, remedy
	}
	return f
}

// reached returns more if value has reached the limit high, less if it has reached low, else
// doctor.OK.
func reached[V cmp.Ordered](value, low V, less doctor.Severity, high V, more doctor.Severity) doctor.Severity {
	switch {
	case value >= high:
		return more
	case value >= low:
		return less
	}
	return doctor.OK
}

// worse returns s if bad, else doctor.OK.
func worse(bad bool, s doctor.Severity) doctor.Severity {
	if bad {
		return s
	}
	return doctor.OK
}

// connections judges how many of the connections that a database allows are in use.
func connections(now, most int, remedy string) doctor.Finding {
	full := float64(now) / float64(max(most, 1))
	return because(saw("connections", reached(full, 0.8, doctor.Warning, 0.95, doctor.Danger), "%d of %d connections are in use", now, most),
		"who has to reconnect cannot renew", remedy)
}

// noAnswer returns the finding of a server that does not answer.
func noAnswer(err error) doctor.Finding {
	return because(saw("answers", doctor.Warning, "it does not answer: %v", err),
		"the others may not be enough if one more fails", "start it, open the way to it, or take it out of the URL")
}
