package redistest_test

import (
	"cmp"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

func TestMain(m *testing.M) {
	// the tests wait more than they work
	flag.Parse()
	_ = flag.Set("test.parallel", "6")
	goleak.VerifyTestMain(m)
}

func TestBadConfigurationIsExplained(t *testing.T) {
	start(t)
	_, err := redistest.Run(t.TempDir(), redistest.Conf("no-such-directive 1"))
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Fatalf("got %v, want an error that names the directive", err)
	}
}

func TestMissingServer(t *testing.T) {
	t.Setenv(redistest.ProgramEnv, "")
	t.Setenv("PATH", t.TempDir())
	if _, err := redistest.Run(t.TempDir()); !errors.Is(err, redistest.ErrMissing) {
		t.Fatalf("got %v, want ErrMissing", err)
	}
	for ci, want := range map[string]string{"": "skip", "true": "fatal"} {
		t.Setenv("CI", ci)
		if got := outcome(t); got != want {
			t.Fatalf("with CI=%q Start ended in %q, want %q", ci, got, want)
		}
	}
}

// Tests on a server that somebody chose fail where it is missing: nothing must pass
// for a run on it that was none.
func TestChosenServer(t *testing.T) {
	path, err := exec.LookPath(cmp.Or(os.Getenv(redistest.ProgramEnv), "redis-server"))
	if err != nil {
		t.Skip(err)
	}
	t.Setenv("CI", "")
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redistest.ProgramEnv, filepath.Join(t.TempDir(), "valkey-server"))
	if got := outcome(t); got != "fatal" {
		t.Errorf("without the chosen server Start ended in %q, want fatal", got)
	}
	// The name of the program is its own.
	chosen := filepath.Join(t.TempDir(), "other-server")
	if err := os.WriteFile(chosen, []byte("#!/bin/sh\nexec "+path+` "$@"`), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(redistest.ProgramEnv, chosen)
	d := redistest.StartDeployment(t, redistest.Sentinel)
	if info := d.Sentinels()[0].String("INFO", "server"); !strings.Contains(info, "_mode:sentinel") {
		t.Errorf("got %q, want a Sentinel", info)
	}
}

// outcome returns how Start ends its test.
func outcome(t *testing.T) string {
	tb := &verdict{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		redistest.Start(tb)
	}()
	<-done
	return tb.got
}

// verdict notes how a test ended instead of ending it.
type verdict struct {
	testing.TB
	got string
}

func (v *verdict) Skip(...any)  { v.got = "skip"; runtime.Goexit() }
func (v *verdict) Fatal(...any) { v.got = "fatal"; runtime.Goexit() }

func start(t *testing.T, opts ...redistest.Option) *redistest.Server {
	t.Helper()
	return redistest.Start(t, opts...)
}
