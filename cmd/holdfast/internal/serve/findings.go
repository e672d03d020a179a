package serve

import (
	"context"
	"strings"

	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// findings returns what endangers the locks.
func (s Store) findings(ctx context.Context) []dash.Finding {
	report, err := s.Examine(ctx)
	if err != nil {
		return []dash.Finding{{Severity: dash.Danger, Title: "examination", Text: err.Error()}}
	}
	var list []dash.Finding
	for _, f := range report.Findings {
		title := f.ID
		if len(f.Servers) > 0 && len(report.Servers) > 1 {
			title += " (" + strings.Join(f.Servers, ", ") + ")"
		}
		text := f.Saw
		if f.Why != "" {
			text += ". " + f.Why
		}
		list = append(list, dash.Finding{Severity: severity(f.Severity), Title: title, Text: text, Remedy: f.Remedy})
	}
	return list
}

func severity(s doctor.Severity) dash.Severity {
	switch s {
	case doctor.OK:
		return dash.Good
	case doctor.Unknown:
		return dash.Unknown
	case doctor.Note:
		return dash.Note
	case doctor.Warning:
		return dash.Warning
	default:
		return dash.Danger
	}
}
