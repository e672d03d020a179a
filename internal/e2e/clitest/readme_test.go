//go:build unix

package clitest

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// What the README says of the command line beside its blocks, which TestPages types.

// follower is somebody who does as the README says.
type follower struct {
	*testing.T
	readme string
	dir    string   // where it is followed: deploy.sh lies there
	env    []string // PATH, and HOLDFAST_URL of a server
	server *redistest.Server
}

func newFollower(t *testing.T) *follower {
	t.Helper()
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	r := &follower{T: t, readme: string(text), dir: t.TempDir(), server: redistest.Start(t)}
	r.env = append(os.Environ(),
		"PATH="+filepath.Dir(must.Build(t))+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"HOLDFAST_URL=redis://"+r.server.Addr(),
	)
	return r
}

// said returns text, and fails the test unless the README has it.
func (r *follower) said(text string) string {
	r.Helper()
	if !strings.Contains(r.readme, text) {
		r.Fatalf("README.md does not say %q", text)
	}
	return text
}

// shell returns a command line as a shell would run it.
func (r *follower) shell(line string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.Context(), "sh", "-c", "exec "+line)
	cmd.Dir, cmd.Env = r.dir, append(slices.Clip(r.env), env...)
	return cmd
}

// run runs a command line and returns what it printed.
func (r *follower) run(line string, want int, env ...string) string {
	r.Helper()
	var stderr bytes.Buffer
	cmd := r.shell(line, env...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		r.Fatalf("%s: %v", line, err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		r.Fatalf("%s: got status %d, want %d\n%s%s", line, got, want, out, &stderr)
	}
	return string(out)
}

// start starts a command that goes on, waits until it has printed what matches
// pattern, and returns its groups. status waits for its end; stop ends it before.
func (r *follower) start(line, pattern string) (groups []string, status func() int, stop func()) {
	r.Helper()
	cmd := r.shell(line)
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	status = func() int {
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		status()
	}
	var printed strings.Builder
	wanted := regexp.MustCompile(pattern)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		printed.WriteString(lines.Text() + "\n")
		if groups = wanted.FindStringSubmatch(lines.Text()); groups != nil {
			return groups, status, stop
		}
	}
	stop()
	r.Fatalf("%s: ended without %q\n%s", line, pattern, &printed)
	return nil, nil, nil
}

// script writes deploy.sh.
func (r *follower) script(body string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "deploy.sh"), []byte(body+"\n"), 0o600); err != nil {
		r.Fatal(err)
	}
}

func TestReadme(t *testing.T) {
	t.Parallel()
	r := newFollower(t)
	deploy := r.said("holdfast run deploy/prod --wait 10m -- sh deploy.sh")
	r.statuses(deploy)
	r.commands(deploy)
}

// statuses causes every exit status of the README.
func (r *follower) statuses(deploy string) {
	r.Helper()
	var got []string
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(r.readme, -1) {
		got = append(got, row[1])
	}
	if want := []string{"64", "69", "75", "77", "79"}; !slices.Equal(got, want) {
		r.Fatalf("README.md has the statuses %v, tested are %v", got, want)
	}

	r.script("exit 3")
	r.run(deploy, 3)
	r.script(`holdfast run -n deploy/prod -- true; test $? = 75`) // a second one meanwhile
	r.run(deploy, 0)
	r.script("echo deploying; exec sleep 20")
	_, status, _ := r.start(strings.Replace(deploy, "--wait", "--ttl 2s --wait", 1), "^deploying$")
	r.server.Do("DEL", "deploy/prod")
	if got := status(); got != 79 {
		r.Errorf("%s, whose lock was deleted: got status %d, want 79", deploy, got)
	}
	r.run(strings.Replace(deploy, "--wait 10m", "--wait 1s", 1), 69, "HOLDFAST_URL=redis://127.0.0.1:1")
	r.run(deploy, 77, "HOLDFAST_URL=redis://nobody:wrong@"+r.server.Addr())
	r.run("holdfast run deploy/prod", 64)
}

// commands runs the other commands that the README names, while a lock is held.
func (r *follower) commands(deploy string) {
	r.Helper()
	_, _, stop := r.start(deploy, "^deploying$")
	defer stop()
	named := func(command string) string { return strings.Trim(r.said("`"+command+"`"), "`") }
	if out := r.run(named("holdfast ls"), 0); !strings.Contains(out, "deploy/prod") {
		r.Errorf("holdfast ls: %s", out)
	}
	if out := r.run(named("holdfast doctor")+" --fail-on never", 0); !strings.Contains(out, "persistence") {
		r.Errorf("holdfast doctor: %s", out)
	}
	at, _, stop := r.start(named("holdfast serve")+" --listen 127.0.0.1:0", ` at (http://\S+/) `)
	defer stop()
	answer, err := http.Get(at[1] + "lock?name=deploy/prod")
	if err != nil {
		r.Fatal(err)
	}
	defer answer.Body.Close()
	if page, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(page), "deploy/prod") {
		r.Errorf("holdfast serve: got status %d, error %v\n%s", answer.StatusCode, err, page)
	}
	http.DefaultClient.CloseIdleConnections()
}
