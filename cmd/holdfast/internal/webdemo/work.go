package webdemo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/redishold"
)

// goodbye is how long an instance may take to release its locks.
const goodbye = 3 * time.Second

var errEnding = errors.New("the demo is being ended")

// Work is one instance: it reads its task and its orders from in and reports on out
// what happens. When in ends it releases its locks and returns.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("no task: this command is started by the demo")
	}
	var t task
	if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
		return fmt.Errorf("read the task: %w", err)
	}
	s, err := openStore(ctx, t.Access)
	if err != nil {
		return err
	}
	defer s.close()
	log := audit.New(s.Backend, nil)
	w := &worker{
		store: s, out: out, jobs: map[int]context.CancelFunc{},
		locker: holdfast.New(s.Backend, &holdfast.Options{TTL: t.Lease, Note: t.Note, Observe: log.Observe}),
		ledger: newLedger(s),
	}
	w.report(message{Kind: ready})
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		w.obey(ctx, o)
	}
	w.cable.set(false) // what is held is released
	cancel(errEnding)
	w.all.Wait()
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer stop()
	return errors.Join(w.locker.Drain(last), log.Flush(last))
}

// worker is the inside of an instance.
type worker struct {
	*store
	locker *holdfast.Locker
	ledger *ledger
	all    sync.WaitGroup

	writing sync.Mutex // whole lines
	out     io.Writer

	mu   sync.Mutex
	jobs map[int]context.CancelFunc
}

func (w *worker) obey(ctx context.Context, o order) {
	switch o.Verb {
	case verbLock:
		ctx, cancel := context.WithCancel(ctx)
		w.mu.Lock()
		w.jobs[o.Job] = cancel
		w.mu.Unlock()
		w.all.Go(func() { w.job(ctx, o) })
	case verbDrop:
		w.drop(o.Job)
	case verbCut:
		w.cable.set(true)
		w.report(message{Kind: cutOff})
	case verbMend:
		w.cable.set(false)
		w.report(message{Kind: mended})
	}
}

// drop ends the context of a job.
func (w *worker) drop(job int) {
	w.mu.Lock()
	cancel := w.jobs[job]
	delete(w.jobs, job)
	w.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// job takes the lock, works and releases it.
func (w *worker) job(ctx context.Context, o order) {
	defer w.drop(o.Job)
	last := message{Kind: ended, Job: o.Job}
	err := w.locked(ctx, o)
	if err != nil && ctx.Err() != nil && !errors.Is(err, holdfast.ErrLost) {
		err = context.Cause(ctx)
	}
	if err != nil {
		last.Lost, last.Text = errors.Is(err, holdfast.ErrLost), err.Error()
	}
	w.report(last)
}

func (w *worker) locked(ctx context.Context, o order) error {
	lock, err := w.locker.Lock(ctx, lockName)
	if err != nil {
		return err
	}
	w.report(message{Kind: held, Job: o.Job, Token: lock.Token()})
	working := lock.Context(ctx)
	// The first write shows the ledger our token: from now on it refuses older ones.
	if _, err = w.write(working, lock.Token()); err == nil && !retry.Sleep(working, o.Work) {
		err = context.Cause(working)
	}
	if gone := lock.Err(); gone != nil { // also where the work was over at the same moment: a paused process wakes to both
		err = gone
		w.report(message{Kind: lost, Job: o.Job, Text: gone.Error()})
	}
	if err == nil || errors.Is(err, holdfast.ErrLost) {
		w.lastWrite(ctx, o.Job, lock.Token())
	}
	if unlocked := lock.Unlock(); err == nil {
		err = unlocked
	}
	return err
}

// lastWrite writes at the end of the work. Who has lost the lock makes the mistake
// that fencing is for: it writes nevertheless, as soon as the network lets it.
func (w *worker) lastWrite(ctx context.Context, job int, token uint64) {
	seen, err := w.write(ctx, token)
	switch {
	case err == nil:
		w.report(message{Kind: wrote, Job: job, Token: token})
	case errors.Is(err, fence.ErrStale):
		w.report(message{Kind: refused, Job: job, Token: seen})
	}
}

// write writes to the ledger, as soon as the network lets it, and no longer than
// ctx lasts.
func (w *worker) write(ctx context.Context, token uint64) (seen uint64, err error) {
	for {
		seen, err = w.ledger.write(ctx, token)
		if err == nil || errors.Is(err, fence.ErrStale) {
			return seen, err
		}
		if !retry.Sleep(ctx, 200*time.Millisecond) {
			return 0, context.Cause(ctx)
		}
	}
}

// report sends a message. A page that no longer listens has closed the input as
// well, which ends the instance; so an error here needs no answer.
func (w *worker) report(m message) {
	line, err := json.Marshal(m)
	if err != nil {
		panic(err) // a message is made of numbers and text
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	_, _ = w.out.Write(append(line, '\n'))
}

// ledger is the resource that the lock protects: it refuses stale tokens.
type ledger struct {
	store      *store
	set, touch *redishold.Script
}

func newLedger(s *store) *ledger {
	return &ledger{store: s, set: redishold.NewScript("set", fence.Script), touch: keepScript()}
}

// write writes the time under a token. Where that is fence.ErrStale it returns the
// larger token that the ledger has seen.
func (l *ledger) write(ctx context.Context, token uint64) (seen uint64, err error) {
	keys := []string{prefix + ledgerName}
	reply, err := l.store.run(ctx, l.set, keys, strconv.FormatUint(token, 10), "written at "+time.Now().Format(time.TimeOnly))
	if err != nil {
		return 0, err
	}
	if err := fence.Accepted(reply); err != nil {
		if list, ok := reply.([]any); ok && len(list) == 2 {
			text, _ := list[1].(string)
			seen, _ = strconv.ParseUint(text, 10, 64)
		}
		return seen, err
	}
	_, err = l.store.run(ctx, l.touch, append(keys, prefix+tokenName), milliseconds(keep))
	return token, err
}
