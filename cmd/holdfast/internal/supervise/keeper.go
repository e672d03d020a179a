package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/procgroup"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// A command that runs as another user, such as one that sudo starts, cannot be stopped. So its
// lock is kept until it has ended, as far as the store allows that, unless the user has limited
// the time of the lock:
//
//   - If the lock is lost while this program lives, the program takes the lock again.
//   - If this program is killed, a keeper renews the lock in its place. A keeper is this program,
//     started a second time when the program sees that the command runs as another user.

const (
	// keepVariable makes this program a keeper. Its value is the JSON of a kept.
	keepVariable = "HOLDFAST_KEEP"
	// groupPoll is the pause between two checks whether a group has ended.
	groupPoll = 100 * time.Millisecond
	// reapWait is how long a keeper waits for the system to forget processes that have ended. Until
	// then other programs still find them.
	reapWait = 2 * time.Second
)

// kept is what a keeper keeps.
type kept struct {
	Claim driver.Claim // of the lock
	Group int          // the process group of the command
}

// keeper is the calling program's side of a keeper.
type keeper struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser // the keeper renews the lock when this is closed before release
}

// startKeeper starts a keeper for the lock, which stays idle as long as this program lives. The
// keeper has the arguments, the environment and the folder of this program, so that it opens the
// same store.
func (r *runner) startKeeper(lock *holdfast.Lock, group int) (*keeper, error) {
	file, err := procgroup.Executable()
	if err != nil {
		return nil, err
	}
	what, err := json.Marshal(kept{r.claimOf(lock), group})
	if err != nil {
		return nil, err
	}
	k := &keeper{cmd: &exec.Cmd{
		Path: file, Args: os.Args, Env: slices.Concat(r.Env.Environ, []string{keepVariable + "=" + string(what)}),
		Stderr: os.Stderr, SysProcAttr: procgroup.OwnGroup(),
	}}
	if k.stdin, err = k.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return k, k.cmd.Start()
}

// release ends the keeper, which does not touch the lock then.
func (k *keeper) release() {
	_, _ = k.stdin.Write([]byte{0})
	_ = k.stdin.Close()
	kill := time.AfterFunc(time.Second, func() { _ = k.cmd.Process.Kill() }) // it may still wait for the store
	defer kill.Stop()
	_ = k.cmd.Wait()
}

// claimOf returns the claim of the lock, for a renewal and a release by another process.
func (r *runner) claimOf(lock *holdfast.Lock) driver.Claim {
	owner, _ := r.attempts.last()
	client, number, _ := strings.Cut(owner, ":")
	seq, _ := strconv.ParseUint(number, 10, 64)
	c := driver.Claim{
		Name: lock.Name(), Client: client, Seq: seq, Owner: owner, Note: r.holder,
		TTL: r.TTL, Count: 1, Tokens: 1, Permits: r.Permits, Fair: r.Fair, ReadWrite: r.Shared || r.Exclusive,
	}
	switch {
	case r.Permits > 0:
		c.Mode = driver.Permit
	case r.Shared:
		c.Mode = driver.Shared
	}
	return c
}

// keep does the work of a keeper, if this program is one.
func keep(ctx context.Context, p Program, l *Lock) (isKeeper bool, err error) {
	text, ok := p.Env.Lookup(keepVariable)
	if !ok {
		return false, nil
	}
	var what kept
	if err := json.Unmarshal([]byte(text), &what); err != nil || what.Group <= 1 {
		return true, output.UsageError("%s is for internal use", keepVariable)
	}
	l.holdOn()
	s := session{Program: p, Lock: l, holder: what.Claim.Note, without: "is not kept"}
	return true, s.withStore(ctx, func(locker *holdfast.Locker) error {
		if n, _ := p.Env.Stdin.Read(make([]byte, 1)); n > 0 {
			return nil // the program has released the lock
		}
		s.Report.Warn("holdfast run was killed, and its command runs as another user: lock %q is kept until the command has ended", l.Name)
		over, cancel := untilGone(ctx, what.Group)
		defer cancel()
		if s.renewUntil(over, what.Claim) {
			return s.releaseClaim(what.Claim)
		}
		return s.takeUntil(over, locker)
	})
}

// holdOn changes the options of the lock so that it is held without a limit of time.
func (l *Lock) holdOn() {
	l.Nonblock, l.Wait, l.NoRenew, l.MaxHold, l.keep = false, forever, false, 0, 0
}

// untilGone returns a context that ends when no process of the group is left.
func untilGone(ctx context.Context, group int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for ctx.Err() == nil && !procgroup.Gone(group) {
			retry.Sleep(ctx, groupPoll)
		}
		for end := time.Now().Add(reapWait); ctx.Err() == nil && !procgroup.Reaped(group) && time.Now().Before(end); {
			retry.Sleep(ctx, groupPoll)
		}
	}()
	return ctx, cancel
}

// renewUntil renews the claim until the context `over` ends. It returns false if the store does
// not have the claim any more.
func (s *session) renewUntil(over context.Context, c driver.Claim) bool {
	for pause := time.Duration(0); ; {
		retry.Sleep(over, pause)
		if over.Err() != nil {
			return true
		}
		ctx, cancel := context.WithTimeout(over, c.TTL/3)
		renewals, err := s.store.Backend.Renew(ctx, []driver.Claim{c})
		cancel()
		switch {
		case err == nil && len(renewals) == 1 && retry.Gone(renewals[0].Err):
			return false
		case err != nil || len(renewals) != 1 || renewals[0].Err != nil:
			pause = groupPoll
		default:
			pause = c.TTL / 3
		}
	}
}

// releaseClaim releases the claim of a program that was killed.
func (s *session) releaseClaim(c driver.Claim) error {
	ctx, cancel := context.WithTimeout(context.Background(), DrainWait)
	defer cancel()
	return s.store.Backend.Release(ctx, c)
}

// takeUntil takes the lock, and holds it until the context `over` ends.
func (s *session) takeUntil(over context.Context, locker *holdfast.Locker) error {
	for over.Err() == nil {
		lock, err := s.take(over, locker)
		switch {
		case over.Err() != nil && err != nil:
			return nil
		case err != nil:
			return err
		}
		s.Report.Warn("lock %q is held again for the command that cannot be stopped", s.Name)
		<-lock.Context(over).Done()
		if err := lock.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) {
			return err
		}
	}
	return nil
}

// guardian keeps the lock of a command that cannot be stopped. The zero guardian does nothing.
type guardian struct {
	keeper *keeper
	again  sync.WaitGroup // takes the lock again
	cancel context.CancelFunc
}

// mustKeep reports whether the lock of the command has to be kept: the command runs as another user,
// and the user has not limited the time of the lock.
func (s *supervisor) mustKeep() bool { return s.MaxHold == 0 && !s.NoRenew && s.group.Foreign() }

// watch starts a keeper if one is needed.
func (g *guardian) watch(s *supervisor) {
	if g.keeper != nil || !s.mustKeep() {
		return
	}
	k, err := s.startKeeper(s.lock, s.group.ID())
	if err != nil {
		s.Report.Warn("the command runs as another user, and nothing keeps its lock if holdfast is killed: %v", err)
		k = &keeper{}
	}
	g.keeper = k
}

// takeAgain takes the lock again when it is lost, if that is needed.
func (g *guardian) takeAgain(s *supervisor) {
	if g.cancel != nil || !s.mustKeep() {
		return
	}
	over, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	again := s.session
	options := *s.Lock
	again.Lock = &options
	options.holdOn()
	g.again.Go(func() {
		if err := again.takeUntil(over, s.locker); err != nil {
			s.Report.Warn("lock %q is not held again: %v", s.Name, err)
		}
	})
}

// end is called when no process of the command is left.
func (g *guardian) end() {
	if g.cancel != nil {
		g.cancel()
		g.again.Wait()
	}
	if g.keeper != nil && g.keeper.cmd != nil {
		g.keeper.release()
	}
}
