package doctortest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// The command finds the Sentinels and their password in the URL, shows neither
// password, and shows by its status how bad it is.
func TestCommand(t *testing.T) {
	t.Parallel()
	binary := must.Build(t)
	d := redistest.StartDeployment(t, redistest.Sentinel, redistest.AOF(), redistest.Password("datas3cret"), redistest.SentinelPassword("sentinels3cret"),
		redistest.Conf("min-replicas-to-write 1", "min-replicas-max-lag 3"))
	url := "redis+sentinel://:datas3cret@" + strings.Join(d.Seeds(), ",") + "/" + redistest.MasterName + "?sentinel_password=sentinels3cret"
	run := func(args ...string) (string, int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"doctor"}, args...)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		cmd.Env = append(cmd.Environ(), "HOLDFAST_URL="+url)
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if strings.Contains(out.String()+errs.String(), "s3cret") {
			t.Errorf("a password is shown:\n%s%s", &out, &errs)
		}
		if errs.Len() > 0 {
			t.Errorf("got %q on standard error", &errs)
		}
		return out.String(), cmd.ProcessState.ExitCode()
	}
	text, code := run("--json")
	var r doctor.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil || code != 0 {
		t.Fatalf("got status %d, %v, %s", code, err, text)
	}
	expect(t, &r, "sentinels", doctor.OK)
	expectNothingWorse(t, &r, doctor.Note)
	if text, code := run("--fail-on", "note"); code != 1 || !strings.Contains(text, "sentinel, 1 master, 3 sentinels") {
		t.Errorf("got status %d: %s", code, text)
	}
	d.Master("any").Do("CONFIG", "SET", "maxmemory", "1gb")
	d.Master("any").Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	if text, code := run("--fail-on", "danger"); code != 1 || !strings.Contains(text, "CONFIG SET maxmemory-policy noeviction") {
		t.Errorf("got status %d: %s", code, text)
	}
}
