package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// The stand-in reports little; what there is must be printed all the same, as a table
// and as JSON, with the same status.
func TestDoctor(t *testing.T) {
	s := newSite(t)
	table := s.run("doctor", "-v")
	if !strings.Contains(table.stdout, "a mutex works") || !strings.Contains(table.stdout, "checked for a lease of 30s") {
		t.Errorf("got %q, %q", table.stdout, table.stderr)
	}
	short := s.run("doctor")
	if strings.Contains(short.stdout, "a mutex works") || !strings.Contains(short.stdout, " ok\n") {
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
	if never.code != output.ExitOK {
		t.Errorf("got status %d with --fail-on never", never.code)
	}
	for _, fails := range []doctor.Severity{doctor.Note, doctor.Warning, doctor.Danger} {
		want := output.ExitOK
		if r.Worst >= fails {
			want = output.ExitFailure
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
		{[]string{"doctor", "x"}, output.ExitUsage, "takes no arguments"},
		{[]string{"doctor", "--ttl", "1ms"}, output.ExitUsage, "--ttl"},
		{[]string{"doctor", "--ttl", "10s", "--margin", "6s"}, output.ExitUsage, "--margin"},
		{[]string{"doctor", "--replicas", "many"}, output.ExitUsage, "--replicas"},
		{[]string{"doctor", "--keys", "-1"}, output.ExitUsage, "--keys"},
		{[]string{"doctor", "--fail-on", "ok"}, output.ExitUsage, "--fail-on"},
		{[]string{"doctor", "--fail-on", "bad"}, output.ExitUsage, "--fail-on"},
		{[]string{"doctor", "-u", "nonsense"}, output.ExitUsage, "--url"},
		{[]string{"doctor", "-u", "redis://127.0.0.1:1"}, output.ExitUnreachable, "127.0.0.1:1"},
	} {
		if got := s.run(test.args...); got.code != test.code || !strings.Contains(got.stderr, test.want) || got.stdout != "" {
			t.Errorf("%q: got %+v, want status %d and %q", test.args, got, test.code, test.want)
		}
	}
	s.server.RequireAuth("s3cret")
	if got := s.run("doctor"); got.code != output.ExitRefused {
		t.Errorf("got %+v without the password, want status %d", got, output.ExitRefused)
	}
	got := call(t, append(s.environ, "REDISCLI_AUTH=s3cret"), "doctor", "-v", "--json")
	if strings.Contains(got.stdout+got.stderr, "s3cret") {
		t.Errorf("the password is shown: %+v", got)
	}
}
