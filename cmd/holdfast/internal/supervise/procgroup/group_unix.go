//go:build unix

package procgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
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
	orders   chan order
	ended    chan *os.ProcessState // the command itself has ended
	gone     chan struct{}         // nothing is left of the group
	done     chan struct{}         // closed when also all output was copied
	pid      int
	halted   bool // the command was stopped in the background
	state    *os.ProcessState
}

// order asks for a signal to the group, for SIGKILL at the time killAt, or for the guard to
// kill the group at the time killBy. A field that is zero asks for nothing.
type order struct {
	signal syscall.Signal
	killAt time.Time
	killBy time.Time
}

// Start starts c. If c.Stdin is the terminal and the calling program is in its foreground,
// the group is in the foreground until it has ended. The error of a command that could not be
// started is that of the system; see StartCode.
func Start(c Command) (*Group, error) {
	guard, err := startGuard()
	if err != nil {
		return nil, fmt.Errorf("start the guard process: %w", err)
	}
	g := &Group{
		command:  c,
		guard:    guard,
		terminal: takeTerminal(c.Stdin, guard.pgid),
		orders:   make(chan order),
		ended:    make(chan *os.ProcessState, 1),
		gone:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	if !c.KillBy.IsZero() {
		guard.killBy(c.KillBy)
	}
	started := make(chan error, 1)
	go g.runCommand(started)
	if err := <-started; err != nil {
		g.terminal.giveBack()
		guard.close()
		return nil, err
	}
	go g.watch()
	return g, nil
}

// Signal sends s to every process of the group. It does nothing once the group
// is gone.
func (g *Group) Signal(s syscall.Signal) { g.order(order{signal: s}) }

// Stop sends s to the group now, and SIGKILL at killAt at the latest. It does not wait for
// the end of the group. If it is called again, the earlier killAt counts.
func (g *Group) Stop(s syscall.Signal, killAt time.Time) {
	g.order(order{signal: s, killAt: killAt})
}

// KillBy makes the guard kill the group at that time, even if this program cannot act then,
// because it was stopped or got no time to run. Each call replaces the time of the call
// before.
func (g *Group) KillBy(at time.Time) { g.order(order{killBy: at}) }

func (g *Group) order(o order) {
	select {
	case g.orders <- o:
	case <-g.gone:
	}
}

// Done is closed when nothing is left of the group.
func (g *Group) Done() <-chan struct{} { return g.done }

// Wait waits until nothing is left of the group and returns the status of the
// command as a shell would report it: its own, or 128+n if signal n ended it.
func (g *Group) Wait() int {
	<-g.done
	status, ok := g.state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return g.state.ExitCode()
}

// runCommand starts the command and waits for it. It keeps its thread, because
// on Linux the command is killed when the thread that started it ends.
func (g *Group) runCommand(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd, err := g.start()
	if err != nil {
		started <- err
		return
	}
	g.pid = cmd.Process.Pid
	started <- nil
	state, _ := cmd.Process.Wait() // it fails only if it is called twice
	g.ended <- state

	<-g.gone
	defer close(g.done)
	_ = cmd.Wait() // for the copying of output; the state was taken above
}

func (g *Group) start() (*exec.Cmd, error) {
	c := g.command
	cmd := g.newCmd(c.Path, c.Args)
	err := cmd.Start()
	if errors.Is(err, syscall.ENOEXEC) {
		// A script without "#!": execvp(3) and every shell hand it to sh.
		args := append([]string{"sh", c.Path}, c.Args[1:]...)
		cmd = g.newCmd("/bin/sh", args)
		err = cmd.Start()
	}
	return cmd, err
}

func (g *Group) newCmd(path string, args []string) *exec.Cmd {
	c := g.command
	return &exec.Cmd{
		Path: path, Args: args, Env: c.Env,
		Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		WaitDelay:   copyGrace,
		SysProcAttr: commandAttr(g.guard.pgid),
	}
}

// watch is the only goroutine that sends signals to the group. It sends them only until the
// guard is reaped, because the process ID of the guard is the name of the group.
func (g *Group) watch() {
	defer close(g.gone)
	defer g.guard.close()
	defer g.terminal.giveBack()

	kill := newAlarm()
	poll := newAlarm()
	defer kill.timer.Stop()
	defer poll.timer.Stop()
	pause := pollFirst
	for ended := g.ended; ; {
		select {
		case g.state = <-ended:
			ended = nil
			g.guard.leave()
			g.send(g.command.StopSignal)
			kill.noLaterThan(time.Now().Add(g.command.KillAfter))
			poll.timer.Reset(0)
		case o := <-g.orders:
			g.obey(o, kill)
		case <-kill.timer.C:
			g.send(syscall.SIGKILL)
			kill.timer.Reset(pollLast) // for processes that could not be killed at once
		case <-g.terminal.changes():
			g.goOn()
		case <-poll.timer.C:
			if gone(g.guard.pgid) {
				return
			}
			poll.timer.Reset(pause)
			pause = min(2*pause, pollLast)
		}
	}
}

func (g *Group) obey(o order, kill *alarm) {
	if !o.killBy.IsZero() {
		g.guard.killBy(o.killBy)
	}
	if o.signal != 0 {
		g.send(o.signal)
	}
	if !o.killAt.IsZero() {
		kill.noLaterThan(o.killAt)
	}
}

// send sends s to the group. If s ends programs, it also sends SIGCONT, because a stopped
// process does not get other signals.
func (g *Group) send(s syscall.Signal) {
	_ = syscall.Kill(-g.guard.pgid, s)
	if Ends(s) {
		_ = syscall.Kill(-g.guard.pgid, syscall.SIGCONT)
	}
}

// goOn continues a command that was stopped from the terminal. If this program was brought to
// the foreground, it first puts the group there. A command that was stopped in the background
// stays stopped: it would be stopped again at once.
func (g *Group) goOn() {
	g.terminal.passOn()
	stopped, report := stopped(g.pid), g.command.Suspended
	switch {
	case !stopped && !g.halted:
		return
	case !g.terminal.foreground():
		g.halted, report = true, g.command.Stopped
	default:
		_ = syscall.Kill(-g.guard.pgid, syscall.SIGCONT)
		g.halted = false
	}
	if stopped && report != nil {
		report()
	}
}

// alarm is a timer whose time can only become earlier.
type alarm struct {
	at    time.Time
	timer *time.Timer
}

func newAlarm() *alarm {
	a := &alarm{timer: time.NewTimer(time.Hour)}
	a.timer.Stop()
	return a
}

func (a *alarm) noLaterThan(at time.Time) {
	if a.at.IsZero() || at.Before(a.at) {
		a.at = at
		a.timer.Reset(time.Until(at))
	}
}
