package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/procgroup"
)

// Hold has the options of a hold without a command.
type Hold struct {
	Period      time.Duration // how long the hold lasts; 0 means no limit
	IgnoreInput bool          // the hold goes on when standard input is closed
	JSON        bool
}

// manualHold is one hold by "holdfast hold".
type manualHold struct {
	session
	Hold
}

// Keep takes the lock, and prints a line on standard output. It holds the lock until
// Hold.Period is over, a signal arrives, or standard input ends. The error has the exit status.
func Keep(ctx context.Context, p Program, l *Lock, how Hold) error {
	h := &manualHold{session{Program: p, Lock: l, holder: l.note("holdfast"), without: "is not held"}, how}
	return h.withStore(ctx, func(locker *holdfast.Locker) error {
		lock, err := h.acquire(ctx, locker)
		if err != nil {
			return err
		}
		if err := h.print("held", lock, ""); err != nil {
			_ = h.unlock(lock)
			return fmt.Errorf("standard output: %w", err)
		}
		return h.release(lock, h.keep(ctx, lock))
	})
}

// keep returns when the lock must be released, or was lost. It returns the reason.
func (h *manualHold) keep(ctx context.Context, lock *holdfast.Lock) string {
	var over <-chan time.Time
	if h.Period > 0 {
		over = time.After(h.Period)
	}
	held := lock.Context(ctx)
	input := h.inputEnds()
	for {
		select {
		case <-over:
			return "--for is over"
		case <-input:
			return "standard input was closed"
		case <-held.Done():
			return "lost"
		case sig := <-h.signals:
			switch {
			case sig == procgroup.Suspending:
				h.Report.Warn("hold cannot be suspended while it holds a lock, so it continues")
			case procgroup.Ends(sig):
				return "interrupted"
			}
		}
	}
}

// inputEnds returns a channel that is closed when standard input is closed. It returns nil with
// IgnoreInput, and if standard input is a terminal, a file or /dev/null. The goroutine that reads
// runs until the program ends, because a read of a pipe cannot be ended.
func (h *manualHold) inputEnds() <-chan struct{} {
	if file, ok := h.Env.Stdin.(*os.File); ok {
		info, err := file.Stat()
		if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
			return nil
		}
	}
	if h.IgnoreInput {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, h.Env.Stdin)
	}()
	return ended
}

func (h *manualHold) release(lock *holdfast.Lock, why string) error {
	err := h.unlock(lock)
	if errors.Is(err, holdfast.ErrLost) {
		err = lossOf(err)
		return &output.ExitError{Code: output.ExitLost, Err: errors.Join(err, h.print("lost", lock, err.Error()))}
	}
	if err != nil && !h.JSON {
		return nil // drain says so, unless the store confirms the release meanwhile
	}
	return h.print("released", lock, why)
}

// heldLine is a line that "holdfast hold --json" prints.
type heldLine struct {
	Version int       `json:"version"`
	Event   string    `json:"event"` // held, released or lost
	Name    string    `json:"name"`
	Token   uint64    `json:"token"`
	Holder  string    `json:"holder"`
	At      time.Time `json:"at"`
	Why     string    `json:"reason,omitempty"`
}

func (h *manualHold) print(event string, lock *holdfast.Lock, why string) error {
	if h.JSON {
		return output.JSONTo(h.Env.Stdout).Encode(heldLine{1, event, lock.Name(), lock.Token(), h.holder, time.Now(), why})
	}
	var text string
	switch event {
	case "held":
		text = fmt.Sprintf("held %q, token %d, as %s", lock.Name(), lock.Token(), output.Clean(h.holder))
		if output.IsTerminal(h.Env.Stdout) {
			text += "; Ctrl-C releases it"
		}
	case "released":
		text = fmt.Sprintf("released %q: %s", lock.Name(), why)
	default:
		return nil // the caller returns an error
	}
	_, err := fmt.Fprintln(h.Env.Stdout, text)
	return err
}
