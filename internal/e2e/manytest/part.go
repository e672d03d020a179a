package manytest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// partVar holds, in JSON, the part of a crowd that a test binary is to be.
const partVar = "HOLDFAST_LOAD_PART"

// part is one process of a crowd. It does one step after the other, each when a line asks for it.
type part struct {
	Crowd
	At    string
	Index int // below loadParts

	backend driver.Backend
	lockers []*holdfast.Locker
	leave   context.CancelFunc
	clients sync.WaitGroup
	got     chan error // of waiters whose lock was not to be had
}

// done is what a part answers when a step is done.
const done = "done"

func nameOf(i int) string { return fmt.Sprint("job ", i) }

// Serve is the part of a crowd that the environment asks of this process, if it does so,
// and ends the process then. TestMain calls it first.
func Serve(open Open) {
	text := os.Getenv(partVar)
	if text == "" {
		return
	}
	p := &part{}
	err := json.Unmarshal([]byte(text), p)
	if err == nil {
		err = p.serve(open, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve does a step for each line that it reads, and answers each with a line: done, or the
// error.
func (p *part) serve(open Open, in io.Reader, out io.Writer) error {
	b, shut, err := open(p.At)
	if err != nil {
		return err
	}
	p.backend, p.got = b, make(chan error, p.Waiters)
	ctx, cancel := context.WithCancel(context.Background())
	p.leave = cancel
	defer closeBackend(context.Background(), b, shut)
	defer p.clients.Wait()
	defer cancel()
	lines := bufio.NewScanner(in)
	for _, step := range []func(context.Context) error{p.wait, p.giveUp, p.end} {
		if !lines.Scan() {
			return lines.Err()
		}
		said := done
		if err := step(ctx); err != nil {
			said = strconv.Quote(err.Error())
		}
		if _, err := fmt.Fprintln(out, said); err != nil {
			return err
		}
	}
	lines.Scan()
	return lines.Err()
}

// own calls do with the numbers below n that are this part's.
func (p *part) own(n int, do func(i int, l *holdfast.Locker), options *holdfast.Options) {
	for i := p.Index; i < n; i += loadParts {
		l := holdfast.New(p.backend, options)
		p.lockers = append(p.lockers, l)
		do(i, l)
	}
}

// wait returns when each client waits.
func (p *part) wait(ctx context.Context) error {
	waiting, all := make(chan struct{}, p.Waiters), 0
	options := &holdfast.Options{TTL: loadTTL, Observe: func(_ context.Context, e holdfast.Event) {
		if e.Type == holdfast.EventWait {
			waiting <- struct{}{}
		}
	}}
	p.own(p.Waiters, func(i int, l *holdfast.Locker) {
		all++
		p.clients.Go(func() {
			if k, err := l.Lock(ctx, nameOf(i%p.Names)); err == nil {
				p.got <- errors.Join(errors.New("a waiter got a lock that is held"), k.Unlock())
			}
		})
	}, options)
	limit := time.After(time.Minute)
	for range all {
		select {
		case <-waiting:
		case <-limit:
			return fmt.Errorf("not all of %d wait within a minute", all)
		}
	}
	return nil
}

// giveUp has calls end within a round trip.
func (p *part) giveUp(ctx context.Context) error {
	var calls sync.WaitGroup
	errs := make(chan error, p.GaveUp)
	p.own(p.GaveUp, func(i int, l *holdfast.Locker) {
		name := nameOf(i / 2 % p.Names)
		if i%2 == 0 {
			name = fmt.Sprint("free ", i)
		}
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			if k, err := l.Lock(ctx, name); err == nil {
				errs <- k.Unlock()
			}
		})
	}, &holdfast.Options{TTL: loadTTL})
	calls.Wait()
	close(errs)
	return joined(errs)
}

// end has the waiters give up, and waits for what their Lockers do then.
func (p *part) end(context.Context) (err error) {
	p.leave()
	p.clients.Wait()
	close(p.got)
	err = joined(p.got)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, l := range p.lockers {
		err = errors.Join(err, l.Drain(ctx))
	}
	return err
}

func joined(errs <-chan error) (all error) {
	for err := range errs {
		all = errors.Join(all, err)
	}
	return all
}

// closeBackend ends what a Backend has in the background, and then its connections.
func closeBackend(ctx context.Context, b driver.Backend, shut func()) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if d, ok := b.(driver.Drainer); ok {
		_ = d.Drain(ctx)
	}
	shut()
}
