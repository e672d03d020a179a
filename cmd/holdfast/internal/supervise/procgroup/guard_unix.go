//go:build unix

package procgroup

import (
	"encoding/binary"
	"errors"
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
	replies *os.File
}

func startGuard() (*guardProcess, error) {
	self, err := Executable()
	if err != nil {
		return nil, err
	}
	theirOrders, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirOrders.Close()
	replies, theirReplies, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, err
	}
	defer theirReplies.Close()

	// The guard inherits no current folder and no environment with passwords. It writes to
	// standard error only if it cannot kill the command.
	g := &guardProcess{orders: orders, replies: replies, cmd: &exec.Cmd{
		Path:  self,
		Args:  []string{"holdfast", guard.Arg, strconv.Itoa(syscall.Getpgrp())},
		Env:   []string{"GOMAXPROCS=1"},
		Dir:   "/",
		Stdin: theirOrders, Stdout: theirReplies, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}}
	err = g.cmd.Start()
	if err == nil && !g.answers() {
		err = errors.New("it did not get ready")
	}
	if err != nil {
		g.close()
		return nil, err
	}
	g.pgid = g.cmd.Process.Pid
	return g, nil
}

// Executable returns the file of this program. On Linux it is the file that runs, even if an
// update has replaced it meanwhile.
func Executable() (string, error) {
	const linux = "/proc/self/exe"
	if _, err := os.Stat(linux); err == nil {
		return linux, nil
	}
	return os.Executable()
}

// answers waits for the guard to reply. It returns false if the guard has ended or does not
// reply in time.
func (g *guardProcess) answers() bool {
	_ = g.replies.SetReadDeadline(time.Now().Add(guardTimeout))
	_, err := g.replies.Read(make([]byte, 1))
	return err == nil
}

// order sends an order; see guard.Leave.
func (g *guardProcess) order(o int64) error {
	_ = g.orders.SetWriteDeadline(time.Now().Add(time.Second))
	return binary.Write(g.orders, binary.BigEndian, o)
}

// killBy sends the guard the time at which it must kill the group. A later call replaces that
// time.
func (g *guardProcess) killBy(at time.Time) {
	_ = g.order(int64(max(time.Until(at), 0))) // if the guard does not read, leave finds that out
}

// watch sends the guard the process id of the command.
func (g *guardProcess) watch(pid int) { _ = g.order(-int64(pid)) }

// leave makes the guard leave its group, so that the group has ended when all its other processes
// have ended. The guard can still kill the group. While the guard exists, the system does not use
// the ID of the group again. If the guard has ended or cannot leave, leave kills and reaps it.
func (g *guardProcess) leave() {
	if g.order(guard.Leave) == nil && g.answers() {
		return
	}
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
}

// close ends the guard, which kills all processes that are left in the group.
func (g *guardProcess) close() {
	g.orders.Close()
	_ = g.cmd.Wait() // it fails if leave has reaped the guard
	g.replies.Close()
}
