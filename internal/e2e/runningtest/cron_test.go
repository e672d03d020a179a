//go:build unix

package runningtest

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/pages"
)

// job is the line of a crontab that has a command, with what cron gives to it.
type job struct {
	environ []string
	command string
}

// crontab reads a crontab with one command. Its lines have a user if it is a file of /etc/cron.d.
func (m *machine) crontab(text, user string) job {
	m.Helper()
	j := job{environ: []string{"SHELL=/bin/sh", "PATH=/usr/bin:/bin", "HOME=/", "LOGNAME=report"}}
	setting := regexp.MustCompile(`^\w+=`)
	due := regexp.MustCompile(`^(?:[\d*/,-]+ +){5} *` + user + ` *`)
	for line := range strings.Lines(m.installed.Replace(text)) {
		line = strings.TrimSuffix(line, "\n")
		when := due.FindString(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case setting.MatchString(line):
			j.environ = append(j.environ, line)
		case when == "" || j.command != "" || strings.Contains(line, "%"):
			m.Fatalf("%q is not the one line with a command, and without %%", line)
		default:
			j.command = strings.TrimPrefix(line, when)
		}
	}
	return j
}

// mail returns what cron mails, and the status of the command.
func (j job) mail() (text string, status int) {
	cmd := exec.Command("/bin/sh", "-c", j.command)
	cmd.Env = j.environ
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// One machine makes the report, and cron mails what it prints. The others are silent, also when
// the report is made already. When the store is down, each machine mails that.
func TestCrontab(t *testing.T) {
	m := newMachine(t, map[string]string{"report": "echo the report"})
	j := m.crontab(pages.File(t, folder+"nightly.cron"), "report")
	if mail, status := j.mail(); mail != "the report\n" || status != 0 {
		t.Fatalf("the first machine: status %d, mail %q", status, mail)
	}
	if mail, status := j.mail(); mail != "" || status != 0 {
		t.Errorf("the second machine, a moment later: status %d, mail %q", status, mail)
	}
	m.server.Kill()
	if mail, status := j.mail(); !strings.Contains(mail, "refused") || status != 69 {
		t.Errorf("without a store: status %d, mail %q", status, mail)
	}
}

// The crontab of "holdfast run --help" works, too.
func TestCrontabOfTheHelp(t *testing.T) {
	help := pages.File(t, "cmd/holdfast/internal/cli/help/run.txt")
	_, example, _ := strings.Cut(help, "Examples:\n")
	example, _, _ = strings.Cut(example, "\n\n")
	m := newMachine(t, map[string]string{"report.sh": "echo the report"})
	j := m.crontab(strings.ReplaceAll(example, "\n  ", "\n")[2:]+"\n", "")
	if mail, status := j.mail(); mail != "the report\n" || status != 0 {
		t.Errorf("status %d, mail %q", status, mail)
	}
}
