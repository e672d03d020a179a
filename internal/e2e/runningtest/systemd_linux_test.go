package runningtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// unit has the settings of a unit, by section and key: "Service.User".
type unit map[string][]string

func (m *machine) unit(name string) unit {
	m.Helper()
	u, section := unit{}, ""
	for line := range strings.Lines(m.file(name)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok {
			u[section+"."+key] = append(u[section+"."+key], value)
		}
	}
	return u
}

// command returns the program of a unit, with what systemd gives to it.
func (u unit) command() *exec.Cmd {
	words := strings.Fields(u["Service.ExecStart"][0])
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(slices.Clone(u["Service.Environment"]), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C")
	return cmd
}

// verify returns what systemd says against units, which are given with the names of their files.
func (m *machine) verify(units map[string]string) string {
	m.Helper()
	dir := m.TempDir()
	args := []string{"verify", "--man=no"}
	for name, text := range units {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			m.Fatal(err)
		}
		args = append(args, path)
	}
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	if err != nil {
		return err.Error() + ": " + string(out)
	}
	return string(out)
}

// systemd accepts the units without a warning, and would find these faults.
func TestUnitsAreValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v (Debian: apt-get install systemd)", err)
		}
		t.Skip(err)
	}
	m := newMachine(t, map[string]string{"report": "", "billing-daemon": ""})
	files := []string{"nightly.service", "nightly.timer", "billing.service"}
	units := map[string]string{}
	for _, name := range files {
		units[name] = m.file(name)
	}
	if said := m.verify(units); said != "" {
		t.Errorf("systemd-analyze: %s", said)
	}
	for _, name := range files {
		for fault, change := range map[string][2]string{
			"a misspelt key":   {"TimeoutStopSec=", "TimeoutStop="},
			"a wrong value":    {"KillMode=mixed", "KillMode=one"},
			"no number":        {"TimeoutStopSec=50", "TimeoutStopSec=soon"},
			"no such program":  {"ExecStart=", "ExecStart=/none"},
			"no such time":     {"03:00:00", "33:00:00"},
			"an unknown table": {"[Timer]", "[Times]"},
		} {
			faulty := strings.Replace(units[name], change[0], change[1], 1)
			if faulty != units[name] && m.verify(map[string]string{name: faulty}) == "" {
				t.Errorf("%s with %s: systemd-analyze finds nothing", name, fault)
			}
		}
	}
}

// The units run as systemd runs them. SIGTERM goes to the first process alone, and its status is
// one that systemd takes for a success.
func TestUnits(t *testing.T) {
	m := newMachine(t, map[string]string{"report": "echo the report", "billing-daemon": "echo billing; exec sleep 100"})
	if out, err := m.unit("nightly.service").command().CombinedOutput(); err != nil || string(out) != "the report\n" {
		t.Errorf("nightly: %v, %q", err, out)
	}
	for _, name := range []string{"nightly.service", "billing.service"} {
		u := m.unit(name)
		if got := u["Service.TimeoutStopSec"]; !slices.Equal(got, []string{strconv.Itoa(workTime + runTime)}) {
			t.Errorf("%s: TimeoutStopSec is %q, want %d + %d", name, got, workTime, runTime)
		}
		if got := u["Service.KillMode"]; !slices.Equal(got, []string{"mixed"}) {
			t.Errorf("%s: KillMode is %q: the command would get the signal twice", name, got)
		}
	}
	billing := m.unit("billing.service")
	p := m.start(billing.command())
	p.await("billing")
	p.signal(syscall.SIGTERM)
	if status := strconv.Itoa(p.status()); !slices.Equal(billing["Service.SuccessExitStatus"], []string{status}) {
		t.Errorf("got status %s, want one of %q", status, billing["Service.SuccessExitStatus"])
	}
	if m.server.Int("EXISTS", "billing") != 0 {
		t.Error("the lock is held after the end")
	}
}
