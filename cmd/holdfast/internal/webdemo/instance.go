package webdemo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/retry"
)

var (
	errTooMany  = fmt.Errorf("%d requests wait for this instance already", maxJobs)
	errStarting = errors.New("this instance is starting; try again in a moment")
)

// A process that is gone is replaced after a while, and one that cannot live, as
// Redis is unreachable, not all the time.
const (
	restartAfter  = 200 * time.Millisecond
	restartAtMost = 3 * time.Second
)

// instance is one of the two programs that want the lock: a process, and a new one
// when that is gone.
type instance struct {
	number int
	name   string
	board  *board
	launch func(context.Context) (*process, error)
	poke   func() // the lock may have changed

	mu        sync.Mutex
	process   *process // nil between two lives
	ready     bool
	jobs      map[int]*job
	last      int
	paused    time.Time // zero while it runs
	cut       bool
	cancelled map[int]bool
}

func newInstance(number int, b *board, poke func(), launch func(context.Context) (*process, error)) *instance {
	return &instance{
		number: number, name: fmt.Sprintf("instance %d", number), board: b, poke: poke, launch: launch,
		jobs: map[int]*job{}, cancelled: map[int]bool{},
	}
}

// live starts the process, again and again, until ctx ends.
func (i *instance) live(ctx context.Context) {
	delay := restartAfter
	for ctx.Err() == nil {
		began := time.Now()
		p, err := i.launch(ctx)
		if err == nil {
			i.born(p)
			err = p.run(ctx, i.receive)
		}
		i.buried(ctx, err)
		if time.Since(began) > restartAtMost {
			delay = restartAfter
		}
		retry.Sleep(ctx, delay)
		delay = min(2*delay, restartAtMost)
	}
}

func (i *instance) born(p *process) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.process = p
	i.show()
}

// buried ends what a process that is gone can no longer end.
func (i *instance) buried(ctx context.Context, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, j := range i.jobs {
		j.finish(outcomeKilled, "the instance is gone; its lock ends with the lease")
	}
	clear(i.jobs)
	clear(i.cancelled)
	i.process, i.ready, i.paused, i.cut = nil, false, time.Time{}, false
	if err != nil && ctx.Err() == nil {
		i.board.log("bad", "%s is gone (%v). A new process takes its place", i.name, err)
	}
	i.show()
	i.poke()
}

// ask gives the instance a job.
func (i *instance) ask(work time.Duration) (*job, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case !i.ready:
		return nil, errStarting
	case len(i.jobs) >= maxJobs:
		return nil, errTooMany
	}
	i.last++
	j := &job{number: i.last, work: work, asked: time.Now(), done: make(chan struct{}), result: result{Instance: i.name}}
	if err := i.process.send(order{Verb: verbLock, Job: j.number, Work: work}); err != nil {
		return nil, err
	}
	i.jobs[j.number] = j
	i.show()
	return j, nil
}

// drop ends a job that nobody wants any more.
func (i *instance) drop(j *job) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.process != nil && i.jobs[j.number] != nil && !i.cancelled[j.number] {
		i.cancelled[j.number] = true
		_ = i.process.send(order{Verb: verbDrop, Job: j.number}) // else it ends when its work does
	}
}

// receive notes what the process reports.
func (i *instance) receive(m message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	defer i.show()
	switch m.Kind {
	case ready:
		i.ready = true
	case cutOff, mended:
		i.cut = m.Kind == cutOff
	default:
		if j := i.jobs[m.Job]; j != nil {
			i.about(j, m)
		}
	}
}

// about notes what the process reports of a job.
func (i *instance) about(j *job, m message) {
	switch m.Kind {
	case held:
		j.since, j.result.Token = time.Now(), m.Token
		i.board.log("good", "%s has the lock, after %s, with token %d", i.name, short(j.since.Sub(j.asked)), m.Token)
	case lost:
		j.lost = true
		i.board.log("bad", "%s has lost its lock: %s", i.name, m.Text)
	case wrote:
		j.result.Write = "accepted"
		if j.lost {
			i.board.log("bad", "%s has lost its lock and writes nevertheless. Nobody has held it since, so the ledger accepts", i.name)
		}
	case refused:
		j.result.Write, j.seen = "refused", m.Token
		i.board.log("warn", "%s has lost its lock and writes nevertheless, with token %d. The ledger has seen %d and refuses", i.name, j.result.Token, m.Token)
	case ended:
		i.over(j, m)
	}
	i.poke()
}

// over ends a job.
func (i *instance) over(j *job, m message) {
	outcome := outcomeDone
	switch {
	case i.cancelled[j.number]:
		outcome = outcomeCancelled
	case m.Lost:
		outcome = outcomeLost
	case m.Text != "":
		outcome = outcomeFailed
		i.board.log("bad", "%s: %s", i.name, m.Text)
	}
	delete(i.jobs, j.number)
	delete(i.cancelled, j.number)
	j.finish(outcome, m.Text)
	if outcome == outcomeDone || outcome == outcomeCancelled && !j.since.IsZero() {
		i.board.log("", "%s gives the lock back, after %s", i.name, short(time.Since(j.since)))
	}
}

// do does something to the process that it would not do by itself.
func (i *instance) do(what string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.process == nil {
		return errStarting
	}
	defer i.show()
	switch what {
	case "pause":
		return i.stop(!i.paused.IsZero())
	case "resume":
		return i.stop(true)
	case "kill":
		i.board.log("warn", "%s is killed (SIGKILL). If it holds the lock, that ends with the lease", i.name)
		return i.process.system().Kill()
	case "cut":
		i.board.log("warn", "The network between %s and Redis is cut", i.name)
		return i.process.send(order{Verb: verbCut})
	case "mend":
		i.board.log("", "The network between %s and Redis works again", i.name)
		return i.process.send(order{Verb: verbMend})
	}
	return fmt.Errorf("%q is nothing that can be done to an instance", what)
}

// stop pauses the process, or lets it go on.
func (i *instance) stop(goOn bool) error {
	switch {
	case goOn && i.paused.IsZero():
		return nil
	case goOn:
		i.board.log("", "%s goes on (SIGCONT)", i.name)
		i.paused = time.Time{}
		return resume(i.process.system())
	}
	if err := pause(i.process.system()); err != nil {
		return fmt.Errorf("pause %s: %w", i.name, err)
	}
	i.board.log("warn", "%s is paused (SIGSTOP): it cannot renew its lease, and does not notice", i.name)
	i.paused = time.Now()
	return nil
}

// show puts the instance on the board.
func (i *instance) show() {
	v := instanceState{Number: i.number, Ready: i.ready, Paused: stamp(i.paused), Cut: i.cut}
	if i.process != nil {
		v.PID = i.process.system().Pid
	}
	for _, n := range slices.Sorted(maps.Keys(i.jobs)) {
		j := i.jobs[n]
		switch {
		case j.lost:
			v.Lost = true
		case !j.since.IsZero():
			v.Holds, v.Since, v.Work, v.Token = true, stamp(j.since), j.work.Milliseconds(), j.result.Token
		case v.Waiting == 0:
			v.WaitingSince = stamp(j.asked)
			fallthrough
		default:
			v.Waiting++
		}
	}
	i.board.update(func(s *state) { s.Instances[i.number-1] = v })
}

// short shows a duration to people.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}
