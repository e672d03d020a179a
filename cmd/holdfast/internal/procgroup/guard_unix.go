//go:build unix

package procgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// The messages of a guard and its parent.
const (
	sayReady  = 'r' // from the guard: signals no longer end it
	sayLeave  = 'l' // to the guard, and back when it has left the group
	sayStays  = 's' // from the guard: it could not leave
	sayKillBy = 'k' // to the guard, with 8 bytes of nanoseconds from now
)

// guardTimeout bounds how long an answer of the guard is waited for. A guard
// has nothing to do but to answer.
const guardTimeout = 10 * time.Second

// guard is the calling program's side of a guard process.
type guard struct {
	pgid    int
	cmd     *exec.Cmd
	orders  *os.File // closed, it is the order to kill
	answers *os.File
	reaped  bool
}

func startGuard() (*guard, error) {
	if IsGuard(os.Args[1:]) {
		return nil, errors.New("the program does not call procgroup.Guard") // or it would start itself forever
	}
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
	g := &guard{orders: orders, answers: answers, cmd: &exec.Cmd{
		Path:  self,
		Args:  []string{"holdfast", guardArg, strconv.Itoa(syscall.Getpgrp())},
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
	if answer := g.answer(); answer != sayReady {
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
func (g *guard) answer() byte {
	var b [1]byte
	_ = g.answers.SetReadDeadline(time.Now().Add(guardTimeout))
	if _, err := io.ReadFull(g.answers, b[:]); err != nil {
		return 0
	}
	return b[0]
}

// killBy sends the guard the time to kill the group, unless it hears a later time
// before that.
func (g *guard) killBy(at time.Time) {
	var b [9]byte
	b[0] = sayKillBy
	binary.BigEndian.PutUint64(b[1:], uint64(max(time.Until(at), 0)))
	_ = g.orders.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = g.orders.Write(b[:]) // a guard that does not listen shows in leave
}

// leave makes the guard leave its group, so that the group is gone when
// everything else is. The guard goes on guarding it, and its process id keeps
// the id of the group from being used again. A guard that is dead, or cannot
// leave, is reaped.
func (g *guard) leave() {
	_ = g.orders.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := g.orders.Write([]byte{sayLeave}); err == nil && g.answer() == sayLeave {
		return
	}
	_ = g.cmd.Process.Kill()
	g.reap()
}

// close ends the guard, which kills whatever is left of the group.
func (g *guard) close() {
	g.orders.Close()
	g.reap()
	g.answers.Close()
}

func (g *guard) reap() {
	if !g.reaped {
		g.reaped = true
		_ = g.cmd.Wait()
	}
}

// Guard is what a guard process does; args are its arguments. It returns the
// status to exit with. It ends when the pipe on its standard input closes or
// its deadline passes, after it has killed its process group.
func Guard(args []string) int {
	if len(args) != 2 || syscall.Getpgrp() != os.Getpid() {
		fmt.Fprintln(os.Stderr, "holdfast: this command is for internal use")
		return 64
	}
	outside, err := strconv.Atoi(args[1])
	if err != nil {
		return 64
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE, syscall.SIGALRM)
	_, _ = os.Stdout.Write([]byte{sayReady})

	timer := time.NewTimer(0)
	timer.Stop()
	closed := make(chan struct{})
	go obey(os.Stdin, os.Stdout, outside, timer, closed) // ends with the process
	select {
	case <-closed:
	case <-timer.C:
	}
	_ = syscall.Kill(-os.Getpid(), syscall.SIGKILL)
	<-closed // a guard that is still in its group does not get here
	_ = syscall.Kill(-os.Getpid(), syscall.SIGKILL)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // there is nothing to do on the way out
	return 0
}

// obey does what it reads from orders until they close.
func obey(orders io.Reader, answers io.Writer, outside int, timer *time.Timer, closed chan<- struct{}) {
	defer close(closed)
	var b [9]byte
	for {
		if _, err := io.ReadFull(orders, b[:1]); err != nil {
			return
		}
		switch b[0] {
		case sayLeave:
			answer := byte(sayLeave)
			if err := syscall.Setpgid(0, outside); err != nil {
				answer = sayStays
			}
			_, _ = answers.Write([]byte{answer})
		case sayKillBy:
			if _, err := io.ReadFull(orders, b[1:]); err != nil {
				return
			}
			timer.Reset(time.Duration(binary.BigEndian.Uint64(b[1:])))
		}
	}
}
