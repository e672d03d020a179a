package stores

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

// startLimit bounds how long a server may take until it answers.
const startLimit = 30 * time.Second

// process is a server that runs.
type process struct {
	cmd  *exec.Cmd
	done <-chan struct{}
	log  string // the file of what it says
}

// run starts cmd, whose working folder is that of the server, and returns when ready
// returns nil.
func run(cmd *exec.Cmd, ready func(context.Context) error) (*process, error) {
	p := &process{cmd: cmd, log: filepath.Join(cmd.Dir, "log")}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	p.done, err = child.Start(cmd, func() {
		_ = cmd.Wait() // how it ended is in its log
		_ = log.Close()
	})
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	if err := p.await(ready); err != nil {
		p.Close()
		said, _ := os.ReadFile(p.log)
		return nil, fmt.Errorf("%s does not answer: %w\n%s", filepath.Base(cmd.Path), err, said)
	}
	return p, nil
}

func (p *process) await(ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// PID returns the process.
func (p *process) PID() int { return p.cmd.Process.Pid }

// Close asks the server to end, and kills it if it does not.
func (p *process) Close() {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	force := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer force.Stop()
	<-p.done
}

// as has cmd run in dir, as the user of a package where this is root: databases refuse to
// run as root. The user owns dir then.
func as(cmd *exec.Cmd, name, dir string) (*exec.Cmd, error) {
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{}
	if os.Getuid() != 0 {
		return cmd, nil
	}
	other, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(other.Uid)
	gid, _ := strconv.Atoi(other.Gid)
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return cmd, os.Chown(dir, uid, gid)
}

// program returns the last file that matches pattern, or what PATH has, or an error that
// names the package of Debian.
func program(pattern, debian string) (string, error) {
	if found, _ := filepath.Glob(pattern); len(found) > 0 {
		return slices.Max(found), nil
	}
	path, err := exec.LookPath(filepath.Base(pattern))
	if err != nil {
		return "", fmt.Errorf("%w; install it (Debian: apt-get install %s)", err, debian)
	}
	return path, nil
}

// tick is the unit of times under /proc.
const tick = 10 * time.Millisecond

// CPU returns how long a process has worked, with those of its children that have ended,
// or 0 where there is no /proc.
func CPU(pid int) time.Duration {
	words := stat(pid)
	if len(words) < 15 {
		return 0
	}
	var ticks int64
	for _, word := range words[11:15] { // user and system, then those of children
		n, _ := strconv.ParseInt(word, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * tick
}

// stat returns what the system says of a process, behind its name.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may contain blanks
	return strings.Fields(rest)
}

// family returns a process and its children.
func family(pid int) []int {
	all := []int{pid}
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range found {
		other, _ := strconv.Atoi(filepath.Base(path))
		if words := stat(other); len(words) > 1 && words[1] == strconv.Itoa(pid) {
			all = append(all, other)
		}
	}
	return all
}

// worked returns how long a process and its children have worked.
func worked(pid int) (sum time.Duration) {
	for _, one := range family(pid) {
		sum += CPU(one)
	}
	return sum
}
