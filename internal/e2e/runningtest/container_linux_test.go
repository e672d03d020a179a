package runningtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
)

// container starts words as the first process of a namespace of processes, as a container has it.
func (m *machine) container(words []string) *process {
	m.Helper()
	namespace := []string{"--fork", "--kill-child", "--pid", "--mount-proc"}
	if os.Getuid() != 0 {
		namespace = append(namespace, "--user", "--map-root-user")
	}
	if out, err := exec.Command("unshare", append(slices.Clone(namespace), "true")...).CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			m.Fatalf("no namespace of processes can be made: %v: %s", err, out)
		}
		m.Skipf("no namespace of processes can be made: %v: %s", err, out)
	}
	cmd := exec.Command("unshare", append(namespace, words...)...)
	cmd.Env = []string{"PATH=" + m.bin + ":/usr/bin:/bin", "HOLDFAST_URL=redis://report:secret@" + m.server.Addr()}
	p := m.start(cmd)
	await.Until(m, 10*time.Second, "the first process of the namespace", func() bool {
		pid := p.pid
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(children)))
		if pid != 0 {
			p.pid = pid
		}
		return pid != 0
	})
	return p
}

// entryOf returns the ENTRYPOINT of the Containerfile, which is a list and has no shell.
func entryOf(t *testing.T) (words []string) {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ENTRYPOINT (.*)$`).FindStringSubmatch(pages.File(t, folder+"Containerfile"))
	if found == nil {
		t.Fatal("the Containerfile has no ENTRYPOINT")
	}
	if err := json.Unmarshal([]byte(found[1]), &words); err != nil {
		t.Fatalf("ENTRYPOINT %s is no list: %v", found[1], err)
	}
	return words
}

// As the first process of a container, holdfast passes SIGTERM on, releases the lock, and ends
// with the status of the command.
func TestContainer(t *testing.T) {
	const script = `read -r first </proc/1/comm; [ "$first" = holdfast ] || exit 9
trap 'exit 7' TERM; echo ready; while :; do sleep 0.02; done`
	m := newMachine(t, map[string]string{"report": script, "billing-daemon": script})
	for lock, words := range map[string][]string{"nightly": entryOf(t), "billing": electing(t).Command} {
		p := m.container(words)
		p.await("ready")
		p.signal(syscall.SIGTERM)
		if got := p.status(); got != 7 {
			t.Errorf("%q: got status %d, want 7", words, got)
		}
		if m.server.Int("EXISTS", lock) != 0 {
			t.Errorf("%q: the lock %s is held after the end", words, lock)
		}
	}
}

// The image of the page gets the programs of its entry.
func TestContainerHasItsPrograms(t *testing.T) {
	entry := entryOf(t)
	for _, program := range []string{entry[0], entry[len(entry)-1]} {
		if !strings.Contains(pages.File(t, folder+"Containerfile"), " /usr/local/bin/"+program+"\n") {
			t.Errorf("no line of the Containerfile copies %s", program)
		}
	}
}

// In the worst case a stop takes as long as the page says: the report leaves a process that does
// not obey, and the store does not answer.
func TestJob(t *testing.T) {
	t.Parallel()
	m := newMachine(t, map[string]string{"report": `trap 'exit 0' TERM
sh -c 'trap "" TERM; echo ready; while :; do sleep 1; done' & wait`})
	var job workload
	if err := yaml.Unmarshal([]byte(pages.File(t, folder+"job.yaml")), &job); err != nil {
		t.Fatal(err)
	}
	spec := job.Spec.Template.Spec
	p := m.container(spec.Containers[0].Command)
	p.await("ready")
	m.server.Pause()
	watch := await.NewWatch(t)
	p.signal(syscall.SIGTERM)
	status := p.status()
	took := watch.Took()
	m.server.Resume()
	t.Logf("status %d after %v", status, took)
	if spec.Grace != workTime+runTime || took > runTime*time.Second || took < 10*time.Second {
		t.Errorf("the stop took %v without the time of the report, want 10 s to %d s, and a grace period of %d s; got %d s", took, runTime, workTime+runTime, spec.Grace)
	}
}
