package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/procgroup"
	"github.com/holdfast-go/holdfast/driver"
)

const holdLong = `Hold takes the lock NAME, prints a line on standard output, and keeps the lock until
Ctrl-C or another signal, until --for is over, or, if standard input is a pipe, until the
pipe is closed. Then it releases the lock. It reads nothing from a terminal, so it may
run in the background.

Hold is for maintenance by hand, and for programs without a library: start it, wait for
the line on its standard output, work, and close its standard input. If it ends earlier,
the lock is lost.

Exit status: 0 if the lock was held to the end; 79 if it was lost; 75 if another client
holds the lock and the wait is over; 128+n if signal n ended the wait; else as run.`

const holdExample = `  # nobody deploys for the next two hours
  holdfast hold deploy/prod --for 2h --reason "database maintenance"

  # in a script of bash
  coproc holdfast hold stock -w 1m; read -r line <&"${COPROC[0]}" || exit
  ./work.sh; exec {COPROC[1]}>&-`

// holdOptions is the command line of hold.
type holdOptions struct {
	lockOptions
	period      time.Duration
	ignoreInput bool
	json        bool
}

func newHoldCommand(env output.Environment) *cobra.Command {
	o := &holdOptions{}
	cmd := &cobra.Command{
		Use:                   "hold [flags] NAME",
		Short:                 "Hold a lock by hand",
		Long:                  holdLong,
		Example:               holdExample,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeLock(env, &o.lockOptions),
		Args:                  oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			report := output.NewReporter(env, o.verbose)
			f := cmd.Flags()
			if err := o.Configure(f, env, report, lockSettings()...); err != nil {
				return err
			}
			if err := o.complete(f); err != nil {
				return err
			}
			if o.period < 0 {
				return output.UsageError("--for %s is negative", o.period)
			}
			return (&manualHold{holdOptions: o, env: env, report: report}).run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.addTo(f)
	o.addWaitTo(f)
	o.addKindTo(f)
	f.DurationVar(&o.period, "for", 0, "release the lock after this; 0 never does")
	f.BoolVar(&o.ignoreInput, "ignore-stdin", false, "go on when standard input is closed")
	addExitCode(f, &o.conflictCode, "conflict-exit-code", "E", output.ExitBusy, 0, "status if the lock is held by another")
	f.BoolVar(&o.json, "json", false, "print JSON: an object when the lock is held, and one at the end")
	return cmd
}

// oneName wants the name of a lock, and nothing else.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return output.UsageError("one name of a lock is expected; use: %s", cmd.UseLine())
	}
	return nil
}

// manualHold is a hold of the command hold.
type manualHold struct {
	*holdOptions
	env     output.Environment
	report  *output.Reporter
	signals chan os.Signal
	holder  string
}

func (h *manualHold) run(ctx context.Context) error {
	h.signals = make(chan os.Signal, 16)
	listen(h.signals)
	defer signal.Stop(h.signals)
	h.holder = h.noteOf("holdfast")
	return h.open(ctx, h.env, h.report, h.signals, h.holder, func(_ driver.Backend, locker *holdfast.Locker) error {
		waiting, done := interruptible(ctx, h.signals)
		defer done()
		lock, err := h.acquire(waiting, locker, h.env, h.report)
		if err != nil {
			return h.notAcquired(waiting, err)
		}
		done()
		return h.granted(ctx, lock, interruptOf(waiting))
	})
}

// granted keeps the lock, unless a signal came while it was granted.
func (h *manualHold) granted(ctx context.Context, lock *holdfast.Lock, interrupt *interruption) error {
	if interrupt != nil {
		_ = h.unlock(lock)
		return output.Exit(interrupt.status())
	}
	if err := h.print("held", lock, ""); err != nil {
		_ = h.unlock(lock)
		return fmt.Errorf("standard output: %w", err)
	}
	return h.release(lock, h.keep(ctx, lock))
}

// keep returns when the lock is to be released, or was lost: why.
func (h *manualHold) keep(ctx context.Context, lock *holdfast.Lock) string {
	var over <-chan time.Time
	if h.period > 0 {
		timer := time.NewTimer(h.period)
		defer timer.Stop()
		over = timer.C
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
			case sig == procgroup.Suspending():
				h.report.Warn("a lock cannot be held by a program that is suspended; it goes on")
			case procgroup.Ends(sig):
				return "interrupted"
			}
		}
	}
}

// inputEnds returns a channel that is closed when standard input is, nil if that
// means nothing: a terminal is not read, and /dev/null is always at its end. What
// reads it ends with the program: a read of a pipe cannot be given up.
func (h *manualHold) inputEnds() <-chan struct{} {
	if file, ok := h.env.Stdin.(*os.File); ok {
		info, err := file.Stat()
		if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
			return nil
		}
	}
	if h.ignoreInput {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, h.env.Stdin)
	}()
	return ended
}

func (h *manualHold) release(lock *holdfast.Lock, why string) error {
	err := h.unlock(lock)
	if errors.Is(err, holdfast.ErrLost) {
		return &output.ExitError{Code: output.ExitLost, Err: errors.Join(err, h.print("lost", lock, err.Error()))}
	}
	if err != nil {
		h.report.Warn("%v", err)
	}
	return h.print("released", lock, why)
}

// heldLine is a line of hold --json.
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
	if h.json {
		return output.JSONTo(h.env.Stdout).Encode(heldLine{1, event, lock.Name(), lock.Token(), h.holder, time.Now(), why})
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %q", event, lock.Name())
	switch event {
	case "held":
		fmt.Fprintf(&text, ", token %d, as %s", lock.Token(), output.Clean(h.holder))
		if output.IsTerminal(h.env.Stdout) {
			text.WriteString("; Ctrl-C releases it")
		}
	case "released":
		text.WriteString(": " + why)
	default:
		return nil // an error says so
	}
	_, err := fmt.Fprintln(h.env.Stdout, text.String())
	return err
}
