//go:build unix

package procgroup

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/guard"
)

// guardTimeout bounds how long an answer of the guard is waited for. A guard
// has nothing to do but to answer.
const guardTimeout = 10 * time.Second

// guardProcess is the calling program's side of a guard process.
type guardProcess struct {
	pgid    int
	cmd     *exec.Cmd
	orders  *os.File // closed, it is the order to kill
	answers *os.File
	reaped  bool
}

func startGuard() (*guardProcess, error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	theirOrders, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirOrders.Close()
	answers, theirAnswers, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, err
	}
	defer theirAnswers.Close()

	// It keeps nothing of its parent's: no directory, no output that somebody
	// waits to see closed, no environment with passwords.
	g := &guardProcess{orders: orders, answers: answers, cmd: &exec.Cmd{
		Path:  self,
		Args:  []string{"holdfast", guard.Arg, strconv.Itoa(syscall.Getpgrp())},
		Env:   []string{"GOMAXPROCS=1"},
		Dir:   "/",
		Stdin: theirOrders, Stdout: theirAnswers,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}}
	if err := g.cmd.Start(); err != nil {
		orders.Close()
		answers.Close()
		return nil, err
	}
	g.pgid = g.cmd.Process.Pid
	if answer := g.answer(); answer != guard.Ready {
		g.close()
		return nil, errors.New("it did not get ready")
	}
	return g, nil
}

// executable returns the file of this program. On Linux that is the very file
// that runs, even if an update has replaced it meanwhile.
func executable() (string, error) {
	const linux = "/proc/self/exe"
	if _, err := os.Stat(linux); err == nil {
		return linux, nil
	}
	return os.Executable()
}

// answer returns the guard's next answer, 0 if it has ended or hangs.
func (g *guardProcess) answer() byte {
	var b [1]byte
	_ = g.answers.SetReadDeadline(time.Now().Add(guardTimeout))
	if _, err := io.ReadFull(g.answers, b[:]); err != nil {
		return 0
	}
	return b[0]
}

// killBy sends the guard the time to kill the group, unless it hears a later time
// before that.
func (g *guardProcess) killBy(at time.Time) {
	var b [9]byte
	b[0] = guard.KillBy
	binary.BigEndian.PutUint64(b[1:], uint64(max(time.Until(at), 0)))
	_ = g.orders.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = g.orders.Write(b[:]) // a guard that does not listen shows in leave
}

// leave makes the guard leave its group, so that the group is gone when
// everything else is. The guard goes on guarding it, and its process id keeps
// the id of the group from being used again. A guard that is dead, or cannot
// leave, is reaped.
func (g *guardProcess) leave() {
	_ = g.orders.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := g.orders.Write([]byte{guard.Leave}); err == nil && g.answer() == guard.Leave {
		return
	}
	_ = g.cmd.Process.Kill()
	g.reap()
}

// close ends the guard, which kills whatever is left of the group.
func (g *guardProcess) close() {
	g.orders.Close()
	g.reap()
	g.answers.Close()
}

func (g *guardProcess) reap() {
	if !g.reaped {
		g.reaped = true
		_ = g.cmd.Wait()
	}
}
