//go:build unix

package clitest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// The command line tool, built and run as users do, on a real server.

func TestCLI(t *testing.T) {
	binary := must.Build(t)
	for name, test := range map[string]func(*testing.T, cli){
		"LongerThanTheLease":         cliLongerThanTheLease,
		"KilledLeavesNoCommand":      cliKilledLeavesNoCommand,
		"StoppedLeavesNoCommand":     cliStoppedLeavesNoCommand,
		"BlackHole":                  cliBlackHole,
		"ShortBlackHoleIsHarmless":   cliShortBlackHole,
		"FrozenServer":               cliFrozenServer,
		"FrozenServerAfterTheEnd":    cliFrozenServerAfterTheEnd,
		"Deleted":                    cliDeleted,
		"TakenOver":                  cliTakenOver,
		"InterruptedLeavesNothing":   cliInterruptedLeavesNothing,
		"UnlockedWithoutAnAnswer":    cliUnlockedWithoutAnAnswer,
		"RefusedWithoutTheRights":    cliRefused,
		"FencingTokensRise":          cliTokensRise,
		"OneAtATimeOverManyPrograms": cliOneAtATime,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := faultproxy.Start(t, server.Addr())
			test(t, cli{t: t, binary: binary, server: server, proxy: proxy})
		})
	}
}

// cli is the tool, and a server behind a proxy.
type cli struct {
	t      *testing.T
	binary string
	server *redistest.Server
	proxy  *faultproxy.Proxy
}

// program is the tool at work. alive is a pipe that only the command and its
// descendants can write to: it ends with the last of them.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr bytes.Buffer
	alive  *os.File
	until  string // a pipe, $END, that a command may read from for as long as it is to run
}

// family is a command that ignores every polite signal, has a child and a
// grandchild, and keeps the pipe $ALIVE open.
const family = `trap "" TERM INT HUP; exec >"$ALIVE"; sh -c 'sleep 100 & sleep 100 & wait' & echo ready; sleep 100`

// untilTold is a command that ends when it is asked to, see program.end.
const untilTold = `exec >"$ALIVE"; echo ready; read _ <"$END"; exit 0`

// run starts "holdfast run" with args and waits for the command to open $ALIVE.
func (c cli) run(args ...string) *program {
	c.t.Helper()
	fifo, until := filepath.Join(c.t.TempDir(), "alive"), filepath.Join(c.t.TempDir(), "until")
	for _, path := range []string{fifo, until} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	p := c.start([]string{"ALIVE=" + fifo, "END=" + until}, args...)
	p.until = until
	alive, err := os.OpenFile(fifo, os.O_RDONLY, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	p.alive = alive
	c.t.Cleanup(func() { alive.Close() })
	ready := make([]byte, len("ready\n"))
	_ = alive.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadFull(alive, ready); err != nil {
		c.t.Fatalf("the command did not start: %v; %s", err, p.stderr.String())
	}
	return p
}

// start starts "holdfast run" with args.
func (c cli) start(environ []string, args ...string) *program {
	c.t.Helper()
	p := &program{t: c.t, cmd: exec.Command(c.binary, append([]string{"run"}, args...)...)}
	p.cmd.Env = append(append(os.Environ(), "HOLDFAST_URL=redis://"+c.proxy.Addr()), environ...)
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// end ends a command that reads from $END.
func (p *program) end() {
	p.t.Helper()
	await.Until(p.t, 10*time.Second, "the command reads what tells it to end", func() bool {
		w, err := os.OpenFile(p.until, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			w.Close()
		}
		return err == nil
	})
}

// gone waits until nothing of the command is alive.
func (p *program) gone(within time.Duration) {
	p.t.Helper()
	_ = p.alive.SetReadDeadline(time.Now().Add(within))
	if _, err := io.Copy(io.Discard, p.alive); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.t.Fatalf("after %s something of the command is still alive", within)
		}
		p.t.Fatal(err)
	}
}

// status waits for the end of the tool.
func (p *program) status() int {
	p.t.Helper()
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

func (p *program) want(code int, stderr string) {
	p.t.Helper()
	if got := p.status(); got != code {
		p.t.Errorf("got status %d, want %d; stderr: %s", got, code, p.stderr.String())
	}
	if !strings.Contains(p.stderr.String(), stderr) {
		p.t.Errorf("got stderr %q, want it to contain %q", p.stderr.String(), stderr)
	}
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// mustStillBeHeld fails unless the lease on the server has not ended.
func (c cli) mustStillBeHeld(name string) {
	c.t.Helper()
	if left := c.server.Int("PTTL", name); left <= 0 {
		c.t.Errorf("PTTL %s: got %d: the lease ended before the command did", name, left)
	}
}

func cliLongerThanTheLease(t *testing.T, c cli) {
	p := c.run("-t", "1s", "job", "--", "sh", "-c", untilTold)
	c.renewals().Wait(t, 6) // two leases
	c.start(nil, "-n", "job", "--", "true").want(75, `lock "job" is held by sh@`)
	p.end()
	p.want(0, "")
	if n := c.server.Int("EXISTS", "job"); n != 0 {
		t.Error("the lock is held after the end")
	}
}

func cliKilledLeavesNoCommand(t *testing.T, c cli) {
	p := c.run("-t", "20s", "job", "--", "sh", "-c", family)
	p.signal(syscall.SIGKILL)
	p.gone(5 * time.Second)
	c.mustStillBeHeld("job")
}

func cliStoppedLeavesNoCommand(t *testing.T, c cli) {
	p := c.run("-t", "6s", "--kill-after", "200ms", "job", "--", "sh", "-c", family)
	p.signal(syscall.SIGSTOP)
	p.gone(10 * time.Second)
	c.mustStillBeHeld("job")
	p.signal(syscall.SIGCONT)
	p.want(79, "stopping the command")
}

func cliBlackHole(t *testing.T, c cli) {
	p := c.run("-t", "6s", "job", "--", "sh", "-c", family)
	c.proxy.Blackhole(true)
	p.gone(10 * time.Second)
	c.mustStillBeHeld("job")
	p.want(79, "counts as lost in")
}

func cliShortBlackHole(t *testing.T, c cli) {
	p := c.run("-t", "6s", "--kill-after", "300ms", "job", "--", "sh", "-c", untilTold)
	renewed := c.renewals()
	c.proxy.Blackhole(true)
	await.Until(t, 10*time.Second, "a renewal is overdue", func() bool { return c.server.Int("PTTL", "job") < 2600 })
	before := renewed.Count()
	c.proxy.Blackhole(false)
	// Those that were sent into the hole may arrive now, two at most, and count for
	// nothing. Three later ones go beyond the lease of before the hole.
	renewed.Wait(t, before+5)
	p.end()
	p.want(0, "")
}

// renewals is a rule that counts the renewals which are answered from now on.
func (c cli) renewals() *faultproxy.Rule {
	same := faultproxy.Rewrite(func(reply string) string { return reply })
	return c.proxy.On(faultproxy.Script(redistest.ScriptSHA(c.t, "renew")), same, faultproxy.Always())
}

// cliFrozenServer has the server stand still while the command runs, and again when
// it has just ended: the tool ends at most a second after the lease could.
func cliFrozenServer(t *testing.T, c cli) {
	p := c.run("-t", "3s", "--kill-after", "200ms", "job", "--", "sh", "-c", family)
	c.frozen(p, func() {})
	if !strings.Contains(p.stderr.String(), "counts as lost in") {
		t.Errorf("got stderr %q, want it to say why the command was stopped", p.stderr.String())
	}
}

func cliFrozenServerAfterTheEnd(_ *testing.T, c cli) {
	p := c.run("-t", "3s", "job", "--", "sh", "-c", untilTold)
	c.frozen(p, p.end)
}

// frozen stops the server, ends the command by end, and measures what is left.
func (c cli) frozen(p *program, end func()) {
	c.t.Helper()
	time.Sleep(500 * time.Millisecond) // into the lease
	c.server.Pause()
	frozen := time.Now()
	end()
	late := await.Starved(func() { p.status() })
	if took := time.Since(frozen); took > 4*time.Second+late {
		c.t.Errorf("ended %v after the server froze, want its lease of 3s and a second at most; the machine stood still for %v; stderr: %s", took, late, p.stderr.String())
	} else {
		c.t.Logf("ended %v after the server froze", took)
	}
}

func cliDeleted(t *testing.T, c cli) {
	p := c.run("-t", "2s", "--kill-after", "200ms", "job", "--", "sh", "-c", family)
	c.server.Do("DEL", "job")
	p.gone(5 * time.Second)
	p.want(79, `lock "job" lost`)
}

func cliTakenOver(t *testing.T, c cli) {
	p := c.run("-t", "2s", "--kill-after", "200ms", "job", "--", "sh", "-c", family)
	c.server.Do("DEL", "job")
	c.server.Do("HSET", "job", "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11:1", "1")
	p.gone(5 * time.Second)
	p.want(79, `lock "job" lost`)
	if n := c.server.Int("EXISTS", "job"); n != 1 {
		t.Error("the other's lock was removed")
	}
}

// cliInterruptedLeavesNothing has the request arrive when the tool has gone.
func cliInterruptedLeavesNothing(t *testing.T, c cli) {
	c.start(nil, "job", "--", "true").want(0, "") // the server knows the scripts
	acquire := func(cmd []string) bool { return strings.EqualFold(cmd[0], "EVALSHA") && slices.Contains(cmd, "job") }
	late := c.proxy.On(acquire, faultproxy.DelayRequest(0))
	p := c.start(nil, "job", "--", "true")
	late.Wait(t, 1)
	p.signal(syscall.SIGINT)
	p.want(128+2, "")
	late.Release()
	await.Until(t, 10*time.Second, "the request is executed", func() bool { return late.Answered() == 1 })
	// What the tool sent on its way out came before, or is right behind.
	await.Until(t, 5*time.Second, "the lock is free, for which the program gave up waiting", func() bool { return c.server.Int("EXISTS", "job") == 0 })
}

func cliUnlockedWithoutAnAnswer(t *testing.T, c cli) {
	p := c.run("-t", "20s", "job", "--", "sh", "-c", `exec >"$ALIVE"; echo ready; sleep 0.5`)
	c.proxy.Blackhole(true)
	p.gone(5 * time.Second)
	time.AfterFunc(4*time.Second, func() { c.proxy.Blackhole(false) }) // later than Unlock waits
	p.want(0, "")
	if n := c.server.Int("EXISTS", "job"); n != 0 {
		t.Error("the lock is held after the end")
	}
}

func cliRefused(t *testing.T, c cli) {
	c.server.Do("ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@all", "-eval", "-evalsha")
	url := "HOLDFAST_URL=redis://reader:secret@" + c.proxy.Addr()
	c.start([]string{url}, "job", "--", "true").want(77, "NOPERM")
	c.start([]string{strings.Replace(url, "secret", "wrong", 1)}, "job", "--", "true").want(77, "WRONGPASS")
}

func cliTokensRise(t *testing.T, c cli) {
	var last string
	for range 3 {
		cmd := exec.Command(c.binary, "run", "job", "--shell", "echo $HOLDFAST_TOKEN")
		cmd.Env = append(os.Environ(), "HOLDFAST_URL=redis://"+c.proxy.Addr())
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		token := strings.TrimSpace(string(out))
		if len(token) < len(last) || len(token) == len(last) && token <= last {
			t.Errorf("got token %s after %s", token, last)
		}
		last = token
	}
}

// cliOneAtATime has programs increment a file without any care.
func cliOneAtATime(t *testing.T, c cli) {
	count := filepath.Join(t.TempDir(), "count")
	if err := os.WriteFile(count, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	const programs = 8
	script := `n=$(cat "$COUNT"); sleep 0.02; echo $((n+1)) > "$COUNT"`
	var started []*program
	for range programs {
		started = append(started, c.start([]string{"COUNT=" + count}, "job", "--shell", script))
	}
	for _, p := range started {
		p.want(0, "")
	}
	text, err := os.ReadFile(count)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(text)); got != "8" {
		t.Errorf("got %s, want %d", got, programs)
	}
}
