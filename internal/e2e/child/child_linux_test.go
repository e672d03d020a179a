package child_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

// parentVar makes this program a parent that is going to be killed.
const parentVar = "HOLDFAST_TEST_PARENT"

// busyVar makes this program one that is never at rest.
const busyVar = "HOLDFAST_TEST_BUSY"

func TestMain(m *testing.M) {
	if os.Getenv(parentVar) != "" {
		beParent()
	}
	if os.Getenv(busyVar) != "" {
		beBusy()
	}
	goleak.VerifyTestMain(m)
}

// beParent starts a stopped child, says which it is, and waits.
func beParent() {
	cmd := exec.Command("sleep", "60")
	ended, err := child.Start(cmd, func() { _ = cmd.Wait() })
	if err == nil {
		err = cmd.Process.Signal(syscall.SIGSTOP)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(cmd.Process.Pid)
	<-ended
}

func TestChildDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVar+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = parent.Process.Kill()
	_ = parent.Wait()
	pid, convErr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || convErr != nil {
		t.Fatalf("the parent said %q: %v", line, err)
	}
	// Another process' child: nothing reports its end.
	if !await.Eventually(10*time.Second, func() bool { return !runs(pid) }) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Fatal("the child outlives its parent")
	}
}

// runs reports that a process is there, and not only waits for somebody to ask how
// it ended.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestChildThatCannotStart(t *testing.T) {
	_, err := child.Start(exec.Command("/nonexistent"), func() { t.Error("it was attended") })
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}

// beBusy keeps several threads at work, for a minute.
func beBusy() {
	runtime.GOMAXPROCS(4)
	for range 4 {
		go func() {
			for { //nolint:staticcheck // that is the point
			}
		}()
	}
	fmt.Println("at work")
	time.Sleep(time.Minute)
	os.Exit(0)
}

// After Pause no thread runs.
func TestPauseStopsAllThreads(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), busyVar+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	atWork := make(chan error, 1)
	ended, err := child.Start(cmd, func() {
		_, err := bufio.NewReader(out).ReadString('\n')
		atWork <- err
		_ = cmd.Wait()
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-atWork; err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if err := child.Pause(cmd.Process); err != nil {
			t.Fatal(err)
		}
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", cmd.Process.Pid))
		if err != nil || len(stats) < 2 {
			t.Fatalf("got threads %v and error %v", stats, err)
		}
		for _, name := range stats {
			stat, _ := os.ReadFile(name)
			if _, state, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(state, "T") {
				t.Fatalf("%s: got %.40s, want it stopped", name, stat)
			}
		}
		if err := child.Resume(cmd.Process); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // so that its threads run
	}
	_ = cmd.Process.Kill()
	<-ended
	if err := child.Pause(cmd.Process); err == nil {
		t.Error("Pause of what has ended: got no error")
	}
}
