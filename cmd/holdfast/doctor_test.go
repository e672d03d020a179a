package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// The stand-in reports little; what there is must be printed all the same, as a table
// and as JSON, with the same status.
func TestDoctor(t *testing.T) {
	s := newSite(t)
	table := s.run("doctor", "-v")
	if !strings.Contains(table.stdout, "a mutex can be had") || !strings.Contains(table.stdout, "judged for a lease of 30s") {
		t.Errorf("got %q, %q", table.stdout, table.stderr)
	}
	short := s.run("doctor")
	if strings.Contains(short.stdout, "a mutex can be had") || !strings.Contains(short.stdout, "in order") {
		t.Errorf("got %q", short.stdout)
	}
	s.server.HSet("orders", "cb8b3a68-6c50-4d9d-a6cf-8a4ad1ee2d8b:7", "1")
	asJSON := s.run("doctor", "--json", "--ttl", "10s")
	var r doctor.Report
	if err := json.Unmarshal([]byte(asJSON.stdout), &r); err != nil || r.Version != 1 || r.TTLMillis != 10_000 || len(r.Findings) < 10 {
		t.Fatalf("got %q, %v", asJSON.stdout, err)
	}
	if asJSON.stderr != "" || short.stderr != "" {
		t.Errorf("got %q, %q on standard error", asJSON.stderr, short.stderr)
	}
	never := s.run("doctor", "--fail-on", "never")
	if never.code != exitOK {
		t.Errorf("got status %d with --fail-on never", never.code)
	}
	for _, fails := range []doctor.Severity{doctor.Note, doctor.Warning, doctor.Danger} {
		want := exitOK
		if r.Worst >= fails {
			want = exitFailure
		}
		if got := s.run("doctor", "--fail-on", fails.String()); got.code != want {
			t.Errorf("got status %d with --fail-on %s and a %s, want %d", got.code, fails, r.Worst, want)
		}
	}
}

func TestDoctorRefuses(t *testing.T) {
	s := newSite(t)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"doctor", "x"}, exitUsage, "takes no arguments"},
		{[]string{"doctor", "--ttl", "1ms"}, exitUsage, "--ttl"},
		{[]string{"doctor", "--ttl", "10s", "--margin", "6s"}, exitUsage, "--margin"},
		{[]string{"doctor", "--replicas", "many"}, exitUsage, "--replicas"},
		{[]string{"doctor", "--keys", "-1"}, exitUsage, "--keys"},
		{[]string{"doctor", "--fail-on", "ok"}, exitUsage, "--fail-on"},
		{[]string{"doctor", "--fail-on", "bad"}, exitUsage, "--fail-on"},
		{[]string{"doctor", "-u", "nonsense"}, exitUsage, "--url"},
		{[]string{"doctor", "-u", "redis://127.0.0.1:1"}, exitUnreachable, "127.0.0.1:1"},
	} {
		if got := s.run(test.args...); got.code != test.code || !strings.Contains(got.stderr, test.want) || got.stdout != "" {
			t.Errorf("%q: got %+v, want status %d and %q", test.args, got, test.code, test.want)
		}
	}
	s.server.RequireAuth("s3cret")
	if got := s.run("doctor"); got.code != exitRefused {
		t.Errorf("got %+v without the password, want status %d", got, exitRefused)
	}
	got := call(t, append(s.environ, "REDISCLI_AUTH=s3cret"), "doctor", "-v", "--json")
	if strings.Contains(got.stdout+got.stderr, "s3cret") {
		t.Errorf("the password is shown: %+v", got)
	}
}

// A report is readable whatever is in it.
func TestPrintReport(t *testing.T) {
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
	var text strings.Builder
	if err := printReport(&text, r, true); err != nil {
		t.Fatal(err)
	}
	const want = `cluster, 2 masters, 2 replicas, Redis 7.0.15, Redis 7.2.4, judged for a lease of 30s

danger   eviction  (a:1)
         saw
         why
         -> do

warning  lag  (a:1, b:1, c:1 and 1 more)
         late

ok       clock: right
1 danger, 1 warning, 1 in order
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}
