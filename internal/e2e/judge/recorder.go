package judge

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Recorder writes a history, one JSON value a line. Its methods may be called
// from several goroutines at once.
type Recorder struct {
	// Watched says that the caller writes Renewed down, so that the deadline of
	// each hold is known. It must be set before the first use.
	Watched bool

	// Given says that locks may be passed on in the process, so that a hold may
	// begin late in its lease. It must be set before the first use.
	Given bool

	last atomic.Int64 // operation
	mu   sync.Mutex
	out  *json.Encoder
}

// NewRecorder returns a Recorder that writes to out, which fails silently: a
// worker whose parent is gone has nobody to tell.
func NewRecorder(out io.Writer) *Recorder { return &Recorder{out: json.NewEncoder(out)} }

// Write writes e down; At is now if it is 0.
func (r *Recorder) Write(e Event) {
	if e.At == 0 {
		e.At = time.Now().UnixNano()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.out.Encode(e)
}

// Request is what is asked for, as a history shows it.
type Request struct {
	Name  string
	Side  Side
	Lease time.Duration
	Fixed bool // the lease is not renewed
	Try   bool // it does not wait
	Lock  func(context.Context) (*holdfast.Lock, error)
}

// Take asks for a lock and returns it with the number of the operation.
func (r *Recorder) Take(ctx context.Context, a Request) (*holdfast.Lock, int64, error) {
	op := r.Called(a)
	k, err := a.Lock(ctx)
	r.Answered(op, k, err)
	return k, op, err
}

// Called writes down that a is asked for and returns the number of the
// operation.
func (r *Recorder) Called(a Request) int64 {
	op := r.last.Add(1)
	r.Write(Event{What: Called, Op: op, Name: a.Name, Side: a.Side, Lease: int64(a.Lease), Fixed: a.Fixed, Try: a.Try})
	return op
}

// Answered writes down what came of an operation. Of a lock that was granted it
// will write down the loss.
func (r *Recorder) Answered(op int64, k *holdfast.Lock, err error) {
	now := time.Now().UnixNano()
	if err != nil {
		r.Write(Event{At: now, What: Failed, Op: op, Err: ErrorWord(err)})
		return
	}
	r.Write(Event{At: now, What: Granted, Op: op, Token: k.Token(), Left: int64(k.Remaining()), Watched: r.Watched, Given: r.Given})
	held := k.Context(context.Background())
	context.AfterFunc(held, func() {
		now := time.Now().UnixNano()
		if errors.Is(context.Cause(held), holdfast.ErrLost) {
			r.Write(Event{At: now, What: Lost, Op: op, Err: context.Cause(held).Error()})
		}
	})
}

// Give releases a lock.
func (r *Recorder) Give(k *holdfast.Lock, op int64) error {
	r.Write(Event{What: Unlock, Op: op})
	err := k.Unlock()
	r.Write(Event{What: Unlocked, Op: op, Err: ErrorWord(err)})
	return err
}

// Hold takes a lock, keeps it for a while and releases it.
func (r *Recorder) Hold(ctx context.Context, a Request, keep time.Duration) error {
	k, op, err := r.Take(ctx, a)
	if err != nil {
		return err
	}
	if keep > 0 {
		time.Sleep(keep)
	}
	return r.Give(k, op)
}
