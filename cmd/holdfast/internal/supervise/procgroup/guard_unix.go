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

// guardTimeout is how long to wait for an answer of the guard, which has no other work.
const guardTimeout = 10 * time.Second

// guardProcess is the calling program's side of a guard process.
type guardProcess struct {
	pgid    int
	cmd     *exec.Cmd
	orders  *os.File // the guard kills the group when this is closed
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

	// The guard inherits nothing: no current folder, no output that another process waits
	// for, no environment with passwords.
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

// executable returns the file of this program. On Linux it is the file that runs, even if an
// update has replaced it meanwhile.
func executable() (string, error) {
	const linux = "/proc/self/exe"
	if _, err := os.Stat(linux); err == nil {
		return linux, nil
	}
	return os.Executable()
}

// answer returns the next answer of the guard, or 0 if the guard has ended or does not
// answer.
func (g *guardProcess) answer() byte {
	var b [1]byte
	_ = g.answers.SetReadDeadline(time.Now().Add(guardTimeout))
	if _, err := io.ReadFull(g.answers, b[:]); err != nil {
		return 0
	}
	return b[0]
}

// killBy sends the guard the time at which it must kill the group. A later call replaces that
// time.
func (g *guardProcess) killBy(at time.Time) {
	var b [9]byte
	b[0] = guard.KillBy
	binary.BigEndian.PutUint64(b[1:], uint64(max(time.Until(at), 0)))
	_ = g.orders.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = g.orders.Write(b[:]) // leave finds out if the guard does not read
}

// leave makes the guard leave its group, so that the group has ended when all other processes
// have. The guard can still kill the group. While the guard exists, the system does not use
// the id of the group again. A guard that has ended, or cannot leave, is reaped.
func (g *guardProcess) leave() {
	_ = g.orders.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := g.orders.Write([]byte{guard.Leave}); err == nil && g.answer() == guard.Leave {
		return
	}
	_ = g.cmd.Process.Kill()
	g.reap()
}

// close ends the guard, which kills all processes that are left in the group.
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
