//go:build unix

package procgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestStatusIsTheCommands(t *testing.T) {
	for _, test := range []struct {
		script string
		want   int
	}{
		{"exit 0", 0},
		{"exit 7", 7},
		{"exit 255", 255},
		{"kill -KILL $$", 128 + 9},
		{"kill -TERM $$", 128 + 15},
		{"kill -USR1 $$", 128 + 10},
	} {
		if got := start(t, sh(test.script)).Wait(); got != test.want {
			t.Errorf("%s: got status %d, want %d", test.script, got, test.want)
		}
	}
}

func TestStatusOfWhatCannotStart(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	lost := filepath.Join(dir, "lost")
	write(t, plain, "true\n", 0o644)
	write(t, lost, "#!/no/such/interpreter\n", 0o755)
	for _, test := range []struct {
		name string
		want int
	}{
		{"no-such-command-anywhere", 127},
		{filepath.Join(dir, "absent"), 127},
		{lost, 127},
		{plain, 126},
		{dir, 126},
	} {
		path, err := Find(test.name)
		if err == nil {
			c := sh("")
			c.Path, c.Args = path, []string{path}
			_, err = Start(c)
		}
		if err == nil {
			t.Errorf("%s: started", test.name)
		}
		if got := StartCode(err); got != test.want {
			t.Errorf("%s: got status %d of %v, want %d", test.name, got, err, test.want)
		}
	}
}

func TestScriptWithoutInterpreterIsRunBySh(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	write(t, script, "exit $1\n", 0o755)
	c := sh("")
	c.Path, c.Args = script, []string{"script", "5"}
	if got := start(t, c).Wait(); got != 5 {
		t.Fatalf("got status %d, want 5", got)
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestOutputIsCompleteWhenWaitReturns(t *testing.T) {
	var out bytes.Buffer
	c := sh("cat; printf ' end'")
	c.Stdin, c.Stdout = strings.NewReader(strings.Repeat("x", 100_000)), &out
	start(t, c).Wait()
	if got, want := out.Len(), 100_000+len(" end"); got != want {
		t.Fatalf("got %d bytes, want %d", got, want)
	}
}

func TestStopKillsWhatIgnoresTheSignal(t *testing.T) {
	out := newOutput(t)
	c := sh(`trap "" TERM; (trap "" TERM; sleep 100) & echo ready; while :; do sleep 1; done`)
	c.Stdout = out.w
	g := start(t, c)
	out.await("ready")
	began := time.Now()
	g.Stop(syscall.SIGTERM, began.Add(300*time.Millisecond))
	if got := g.Wait(); got != 128+9 {
		t.Fatalf("got status %d, want %d", got, 128+9)
	}
	if took := time.Since(began); took < 300*time.Millisecond || took > 5*time.Second {
		t.Fatalf("killed after %s, want 300ms", took)
	}
	out.end(500 * time.Millisecond)
}

func TestStopAgainOnlyMovesTheKillForward(t *testing.T) {
	out := newOutput(t)
	c := sh(`trap "" TERM; echo ready; while :; do sleep 1; done`)
	c.Stdout = out.w
	g := start(t, c)
	out.await("ready")
	began := time.Now()
	g.Stop(syscall.SIGTERM, began.Add(200*time.Millisecond))
	g.Stop(syscall.SIGTERM, began.Add(time.Hour))
	g.Wait()
	if took := time.Since(began); took > 10*time.Second {
		t.Fatalf("killed after %s", took)
	}
}

func TestStopEndsAStoppedCommand(t *testing.T) {
	out := newOutput(t)
	c := sh(`trap "exit 4" TERM; echo ready; kill -STOP $$; exit 5`)
	c.Stdout = out.w
	g := start(t, c)
	out.await("ready")
	g.Stop(syscall.SIGTERM, time.Now().Add(20*time.Second))
	if got := g.Wait(); got != 4 {
		t.Fatalf("got status %d, want 4", got)
	}
}

func TestLeftoversEndBeforeWaitReturns(t *testing.T) {
	for name, script := range map[string]string{
		"obedient": `sleep 100 & exit 3`,
		"deaf":     `trap "" TERM; sleep 100 & exit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			out := newOutput(t)
			c := sh(script)
			c.Stdout, c.KillAfter = out.w, 300*time.Millisecond
			if got := start(t, c).Wait(); got != 3 {
				t.Errorf("got status %d, want 3", got)
			}
			out.end(500 * time.Millisecond)
		})
	}
}

func TestSignalReachesDescendants(t *testing.T) {
	out := newOutput(t)
	c := sh(`trap : USR1; sh -c 'trap "echo got; exit" USR1; echo ready; while :; do sleep 0.02; done'`)
	c.Stdout = out.w
	g := start(t, c)
	out.await("ready")
	g.Signal(syscall.SIGUSR1)
	out.await("got")
	g.Wait()
}

func TestDeadGuardDoesNotStopTheWork(t *testing.T) {
	out := newOutput(t)
	c := sh(`echo ready; read line; sleep 100 & exit 6`)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c.Stdin, c.Stdout, c.KillAfter = r, out.w, 300*time.Millisecond
	g := start(t, c)
	out.await("ready")
	if err := syscall.Kill(g.guard.pgid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got := g.Wait(); got != 6 {
		t.Fatalf("got status %d, want 6", got)
	}
	out.end(500 * time.Millisecond)
}

// Operators see the guard in ps and top.
func TestGuardHasAName(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems show the name of the program")
	}
	out := newOutput(t)
	c := sh(`echo ready; sleep 100`)
	c.Stdout, c.KillAfter = out.w, 300*time.Millisecond
	g := start(t, c)
	out.await("ready")
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", g.guard.pgid))
	if err != nil || strings.TrimSpace(string(name)) != "holdfast-guard" {
		t.Errorf("got the name %q and error %v, want holdfast-guard", name, err)
	}
	g.Stop(syscall.SIGTERM, time.Now().Add(300*time.Millisecond))
	g.Wait()
}

func TestNothingIsLeftOfTheGuard(t *testing.T) {
	g := start(t, sh("exit 0"))
	g.Wait()
	if err := syscall.Kill(g.guard.pgid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("looking for the guard after Wait: got %v, want %v", err, syscall.ESRCH)
	}
}

func TestOrdersAfterTheEndAreHarmless(t *testing.T) {
	g := start(t, sh("exit 3"))
	g.Wait()
	g.Signal(syscall.SIGTERM)
	g.Stop(syscall.SIGTERM, time.Now())
	g.KillBy(time.Now())
	<-g.Done()
	if got := g.Wait(); got != 3 {
		t.Errorf("got status %d after orders that came too late, want 3", got)
	}
	g.do(func() { t.Error("an order was carried out for a guard that is gone") })
}
