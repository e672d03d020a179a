//go:build unix

package procgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// copyGrace is how long output may be copied after the group has ended. Only a descendant
	// that left the group can still write.
	copyGrace = time.Second

	// pollFirst and pollLast are the shortest and the longest pause between two checks
	// whether a group has ended: no system call waits for that.
	pollFirst = time.Millisecond
	pollLast  = 50 * time.Millisecond
)

// Supported says whether Start can run a command on this system.
const Supported = true

// Group is a running command with all its descendants.
type Group struct {
	command  Command
	guard    *guardProcess
	terminal *terminal
	pid      int
	state    *os.ProcessState
	done     chan struct{} // closed when nothing is left of the group, and all output was copied

	mu     sync.Mutex
	over   bool        // nothing is left of the group
	reaped bool        // the command itself has ended
	denied bool        // Command.Denied was called
	halted bool        // the command was stopped in the background
	killAt time.Time   // when the group gets SIGKILL; zero before a call of Stop
	kill   *time.Timer // calls killNow
}

// Start starts c. If c.Stdin is the terminal and the calling program is in its foreground, the
// group is in the foreground until the group has ended. If the command cannot be started, Start
// returns the error of the system; see StartCode.
func Start(c Command) (*Group, error) {
	guard, err := startGuard()
	if err != nil {
		return nil, fmt.Errorf("start the guard process: %w", err)
	}
	g := &Group{
		command:  c,
		guard:    guard,
		terminal: takeTerminal(c.Stdin, guard.pgid),
		done:     make(chan struct{}),
	}
	g.kill = time.AfterFunc(math.MaxInt64, g.killNow)
	guard.killBy(c.KillBy)
	started := make(chan error, 1)
	go g.run(started)
	if err := <-started; err != nil {
		g.close()
		return nil, err
	}
	go func() {
		for range g.terminal.signal {
			g.do(g.goOn)
		}
	}()
	return g, nil
}

// do calls the function `order` while something is left of the group. After that, the system may
// give the ID of the group, which is the process ID of the guard, to another process.
func (g *Group) do(order func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		order()
	}
}

// close ends the guard. After close, do calls nothing.
func (g *Group) close() {
	g.over = true
	g.kill.Stop()
	g.terminal.giveBack()
	g.guard.close()
}

// ID returns the ID of the process group.
func (g *Group) ID() int { return g.guard.pgid }

// Foreign reports whether the command runs as another user, so that it cannot be stopped.
func (g *Group) Foreign() (foreign bool) {
	g.do(func() { foreign = !g.reaped && errors.Is(syscall.Kill(g.pid, 0), syscall.EPERM) })
	return foreign
}

// Reaped reports whether the system has forgotten all processes of the group pgid. A process that
// has ended is known until its parent has read its status.
func Reaped(pgid int) bool { return errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) }

// OwnGroup makes a process the leader of a process group of its own.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Signal sends s to every process of the group. It does nothing once the group is gone.
func (g *Group) Signal(s syscall.Signal) { g.do(func() { g.send(s) }) }

// Stop sends s to the group now, and SIGKILL at killAt at the latest. It does not wait for
// the end of the group. If Stop is called again, the earlier `killAt` counts.
func (g *Group) Stop(s syscall.Signal, killAt time.Time) {
	g.do(func() {
		g.send(s)
		if g.killAt.IsZero() || killAt.Before(g.killAt) {
			g.killAt = killAt
			g.kill.Reset(time.Until(killAt))
		}
	})
}

// killNow kills the group. It repeats that, because not every process can be killed at once.
func (g *Group) killNow() {
	g.do(func() {
		g.send(syscall.SIGKILL)
		g.kill.Reset(pollLast)
	})
}

// KillBy makes the guard kill the group at the time `at`, even if this program cannot act at
// that time, for example because it was stopped. Each call replaces the time of the call before.
func (g *Group) KillBy(at time.Time) { g.do(func() { g.guard.killBy(at) }) }

// Done is closed when nothing is left of the group.
func (g *Group) Done() <-chan struct{} { return g.done }

// Wait waits until nothing is left of the group and returns the status of the
// command as a shell would report it: its own, or 128+n if signal n ended it.
func (g *Group) Wait() int {
	<-g.done
	if status, ok := g.state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return g.state.ExitCode()
}

// run starts the command and waits for it. Then it ends the processes that are left of the
// group. It stays on one thread, because on Linux the command is killed when the thread that
// started the command ends.
func (g *Group) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd, err := g.start(g.command.Path, g.command.Args)
	if err != nil {
		started <- err
		return
	}
	g.pid = cmd.Process.Pid
	g.do(func() { g.guard.watch(g.pid) })
	started <- nil
	g.state, _ = cmd.Process.Wait() // it fails only if it is called twice
	g.do(func() { g.reaped = true })

	g.do(g.guard.leave)
	g.Stop(g.command.StopSignal, time.Now().Add(g.command.KillAfter))
	for pause := pollFirst; !Gone(g.guard.pgid); pause = min(2*pause, pollLast) {
		time.Sleep(pause)
	}
	g.do(g.close)
	_ = cmd.Wait() // waits until all output is copied; g.state was set above
	close(g.done)
}

func (g *Group) start(path string, args []string) (*exec.Cmd, error) {
	const sh = "/bin/sh"
	cmd := &exec.Cmd{
		Path: path, Args: args, Env: g.command.Env,
		Stdin: g.command.Stdin, Stdout: g.command.Stdout, Stderr: g.command.Stderr,
		WaitDelay:   copyGrace,
		SysProcAttr: commandAttr(g.guard.pgid),
	}
	err := cmd.Start()
	if errors.Is(err, syscall.ENOEXEC) && path != sh {
		// A script without "#!": execvp(3) and every shell run it with sh.
		return g.start(sh, append([]string{"sh", path}, args[1:]...))
	}
	return cmd, err
}

// send sends s to the group. If s ends programs, send also sends SIGCONT, because a stopped
// process does not act on other signals. Signals to a group reach the processes that may get
// them, and the guard always may. So send asks whether the command itself may get them.
func (g *Group) send(s syscall.Signal) {
	_ = syscall.Kill(-g.guard.pgid, s)
	if !g.reaped && !g.denied && errors.Is(syscall.Kill(g.pid, 0), syscall.EPERM) {
		g.denied = true
		g.command.Denied(g.pid)
	}
	if Ends(s) {
		_ = syscall.Kill(-g.guard.pgid, syscall.SIGCONT)
	}
}

// goOn continues a command that was stopped from the terminal. Before that, if this program is
// in the foreground, goOn puts the group there. A command that was stopped in the background
// stays stopped, because the system would stop it again at once.
func (g *Group) goOn() {
	g.terminal.passOn()
	stopped := stopped(g.pid)
	if !stopped && !g.halted {
		return
	}
	if g.halted = !g.terminal.isFront(g.guard.pgid); !g.halted {
		_ = syscall.Kill(-g.guard.pgid, syscall.SIGCONT)
	}
	if stopped {
		g.command.Suspended(g.halted)
	}
}
