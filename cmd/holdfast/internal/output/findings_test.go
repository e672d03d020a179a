package output

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// A report is readable whatever is in it.
func TestReportText(t *testing.T) {
	r := &doctor.Report{
		Deployment: "cluster", TTL: 30 * time.Second, Worst: doctor.Danger,
		Servers: []doctor.Server{
			{Address: "a:1", Version: "Redis 7.0.15", Role: "master"},
			{Address: "b:1", Version: "Redis 7.0.15", Role: "master"},
			{Address: "c:1", Version: "Redis 7.2.4", Role: "replica"},
			{Address: "d:1", Role: "replica"},
			{Address: "e:1"},
		},
		Findings: []doctor.Finding{
			{ID: "eviction", Severity: doctor.Danger, Servers: []string{"a:1"}, Saw: "saw", Why: "why", Remedy: "do"},
			{ID: "lag", Severity: doctor.Warning, Servers: []string{"a:1", "b:1", "c:1", "d:1"}, Saw: "late"},
			{ID: "clock", Severity: doctor.OK, Servers: []string{"a:1", "b:1", "c:1", "d:1", "e:1"}, Saw: "right"},
		},
	}
	const want = `cluster, 2 masters, 2 replicas, Redis 7.0.15, Redis 7.2.4, checked for a lease of 30s

danger   eviction  (a:1)
         saw
         why
         -> do

warning  lag  (a:1, b:1, c:1 and 1 more)
         late

ok       clock: right
1 danger, 1 warning, 1 ok
`
	if text := ReportText(r, true); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
