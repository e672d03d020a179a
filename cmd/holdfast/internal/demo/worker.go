package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redishold"
)

// Work does the work of one process of the demo. It reads its job and the words of the demo
// from the reader in, and writes its messages to out. It returns when the job is done and the
// reader in has ended, or when the reader ends early. Several goroutines may write to out at
// the same time, so out must keep each write together, as an *os.File does.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("no job: this command is started by the demo")
	}
	var j job
	if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	w := &worker{job: j, words: make(chan string), out: out}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel() // the demo has ended, or needs no more messages
		for lines.Scan() {
			select {
			case w.words <- lines.Text():
			case <-ctx.Done():
			}
		}
	}()
	if err := w.work(ctx); err != nil && ctx.Err() == nil {
		w.report(message{Kind: failed, Text: err.Error()})
	}
	w.report(message{Kind: done})
	<-ended
	return nil
}

// worker has what all roles need.
type worker struct {
	job
	words  chan string
	out    io.Writer
	shop   *shop
	lock   string // the name of the lock
	locker *holdfast.Locker
	cut    atomic.Bool // the network

	touched sync.Map // keys that the library used
}

func (w *worker) work(ctx context.Context) error {
	shop, err := openShop(ctx, w.Access, w.Keys)
	if err != nil {
		return err
	}
	defer shop.close()
	shop.conn = network{shop.conn, &w.cut}
	w.shop = shop
	shut, err := w.openLocks(ctx)
	if err != nil {
		return err
	}
	defer shut()
	w.report(message{Kind: ready})
	if err := w.await(ctx, wordGo); err != nil {
		return err
	}
	switch w.Role {
	case roleBuyers:
		return w.buyAll(ctx)
	case roleStaller:
		return w.stall(ctx)
	case roleHeir:
		return w.inherit(ctx)
	case roleInstance:
		return w.instance(ctx)
	default:
		return fmt.Errorf("unknown role %q", w.Role)
	}
}

// await waits until the demo sends word. It returns an error if the demo sends another word.
func (w *worker) await(ctx context.Context, word string) error {
	select {
	case got := <-w.words:
		if got != word {
			return fmt.Errorf("the demo said %q, want %q", got, word)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// report sends a message. It ignores an error: the demo has then also closed the input, which
// ends this process.
func (w *worker) report(m message) {
	line, err := json.Marshal(m)
	if err != nil {
		panic(err) // a message has only numbers and text, so this cannot fail
	}
	_, _ = w.out.Write(append(line, '\n'))
}

// recorder reports each key before the library uses it for the first time, so that the demo
// can delete it afterwards.
type recorder struct {
	redishold.Conn
	known *sync.Map
	tell  func(key string)
}

func (r recorder) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	for _, call := range calls {
		for _, key := range call.Keys {
			if _, known := r.known.LoadOrStore(key, true); !known {
				r.tell(key)
			}
		}
	}
	return r.Conn.Do(ctx, calls...)
}
