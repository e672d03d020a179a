package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

// worker does the job of a process.
type worker struct {
	job
	out    io.Writer
	steps  chan struct{} // gets a value for each "go"
	cut    atomic.Bool   // whether the network is cut
	known  sync.Map      // the keys that this process has reported
	shop   *shop
	locker *holdfast.Locker
}

// Work does the work of one process of the demo. It reads its job and then the words of the
// demo from the reader `in`, and writes its messages to the writer `out`. Work returns when the
// job is done and `in` has ended. If `in` ends before the job is done, Work ends the job early.
// Several goroutines may write to `out` at the same time, so `out` must not mix the bytes of
// two writes. An *os.File does not mix them.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("no job: this command is started by the demo")
	}
	w := &worker{out: out, steps: make(chan struct{})}
	if err := json.Unmarshal(lines.Bytes(), &w.job); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() {
			w.obey(ctx, lines.Text())
		}
		w.cut.Store(false) // so that the lock can be released
		cancel()           // the demo has ended, or needs no more messages
	}()
	last := message{Kind: done}
	if err := w.work(ctx); err != nil && ctx.Err() == nil {
		last = message{Kind: failed, Text: err.Error()}
	}
	w.report(last)
	<-ended
	return nil
}

// obey does what a word of the demo says.
func (w *worker) obey(ctx context.Context, word string) {
	if word != wordGo {
		w.cut.Store(word == wordCut)
		return
	}
	select {
	case w.steps <- struct{}{}:
	case <-ctx.Done():
	}
}

// work connects, waits until the demo sends "go", and does the job.
func (w *worker) work(ctx context.Context) error {
	conn, err := w.Access.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	w.shop = newShop(wire{conn, w}, w.Keys)
	backend, shut, err := w.openLocks(ctx)
	if err != nil {
		return err
	}
	defer shut()
	o := &holdfast.Options{TTL: w.Lease, Note: w.Name}
	var log *audit.Writer
	if source, ok := backend.(admin.Source); ok && w.Log {
		log = audit.New(source, nil)
		o.Observe = log.Observe
	}
	w.locker = holdfast.New(backend, o)
	defer func() {
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
		defer stop()
		_ = w.locker.Drain(last) // a lock that is still held ends with its lease
		if log != nil {
			_ = log.Flush(last) // entries that cannot be written are missing
		}
	}()
	w.report(message{Kind: ready})
	select {
	case <-w.steps:
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.Work > 0 {
		return w.hold(ctx)
	}
	return w.buyAll(ctx)
}

// openLocks returns the backend of the locks, and a function that closes it.
func (w *worker) openLocks(ctx context.Context) (driver.Backend, func(), error) {
	if w.Locks.URL == "" {
		return redishold.New(w.shop.conn, &redishold.Options{KeyPrefix: w.Keys.Prefix}), func() {}, nil
	}
	target, err := open.Parse(open.Request{Access: w.Locks, TTL: w.Lease})
	if err != nil {
		return nil, nil, err
	}
	s, err := target.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return s.Backend, s.Close, nil
}

// report sends a message, in one write. It ignores errors: if the demo does not read any more,
// it has also closed the input, which ends this process.
func (w *worker) report(m message) { _ = json.NewEncoder(w.out).Encode(m) }

var errCut = errors.New("the network is cut")

// wire is the connection of a process. While the network is cut, each new command fails. A
// command that was sent before still gets its answer. The process reports each key before it
// first uses the key, so that the demo can delete the key afterwards.
type wire struct {
	redishold.Conn
	w *worker
}

// Do runs calls. While the network is cut, each result has the error errCut.
func (c wire) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	if c.w.cut.Load() {
		return slices.Repeat([]redishold.Result{{Err: errCut}}, len(calls))
	}
	for _, call := range calls {
		for _, key := range call.Keys {
			if _, known := c.w.known.LoadOrStore(key, true); !known {
				c.w.report(message{Kind: touched, Text: key})
			}
		}
	}
	return c.Conn.Do(ctx, calls...)
}
