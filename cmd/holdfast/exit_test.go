package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

// A system keeps eight bits of an exit status: 256 would be success.
func TestEveryExitCodeIsChecked(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	checked := 0
	for _, cmd := range newRootCommand(output.Environment{}).Commands() {
		for _, flag := range exitCodeFlags(cmd) {
			for _, code := range []string{"-1", "256", "512", "1000"} {
				args := []string{cmd.Name(), "--" + flag + "=" + code, "job"}
				if cmd.Flags().Lookup("nonblock") != nil {
					args = append([]string{cmd.Name(), "-n"}, args[1:]...)
				}
				if cmd.Name() != "hold" {
					args = append(args, "true")
				}
				s.run(args...).want(t, output.ExitUsage, "--"+flag)
			}
			checked++
		}
	}
	if checked < 4 {
		t.Errorf("checked %d flags, want those of run, hold and elect", checked)
	}
	s.run("hold", "-n", "-E", "255", "job").want(t, 255, "is held by")
	s.run("hold", "-n", "-E", "0", "job").want(t, 0, "is held by")
}

func exitCodeFlags(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if strings.HasSuffix(f.Name, "-exit-code") {
			names = append(names, f.Name)
		}
	})
	return names
}

// What a wait cannot fix counts for more than that the lock was busy meanwhile,
// and both for more than that the time was over.
func TestStatusOfWhatCameTogether(t *testing.T) {
	busy := &holdfast.BusyError{Name: "job", Holder: "somebody"}
	noPerm := fmt.Errorf("%w: %w", driver.ErrRefused, &redishold.ReplyError{Text: "NOPERM this user has no permissions"})
	noAuth := &redishold.ReplyError{Text: "NOAUTH Authentication required."}
	late := context.DeadlineExceeded
	for _, test := range []struct {
		name string
		errs []error
		want int
	}{
		{"busy", []error{busy}, 5},
		{"busy, out of time", []error{busy, late}, 5},
		{"out of time, busy", []error{late, busy}, 5},
		{"out of time", []error{late}, output.ExitUnreachable},
		{"no answer", []error{driver.ErrNotExecuted, late}, output.ExitUnreachable},
		{"busy, no answer", []error{busy, driver.ErrNotExecuted}, 5},
		{"rights", []error{noPerm}, output.ExitRefused},
		{"busy, rights", []error{busy, noPerm}, output.ExitRefused},
		{"rights, busy, out of time", []error{noPerm, busy, late}, output.ExitRefused},
		{"busy, password", []error{busy, noAuth}, output.ExitRefused},
		{"out of time, password", []error{late, noAuth}, output.ExitRefused},
		{"busy, a name that cannot be kept", []error{busy, driver.ErrRefused}, output.ExitUsage},
		{"another kind", []error{holdfast.ErrMismatch}, output.ExitUsage},
		{"busy, another kind", []error{busy, holdfast.ErrMismatch}, output.ExitUsage},
		{"another kind, out of time", []error{holdfast.ErrMismatch, late}, output.ExitUsage},
		{"rights, another kind", []error{noPerm, holdfast.ErrMismatch}, output.ExitUsage},
		{"busy, not supported", []error{busy, errors.ErrUnsupported}, output.ExitOwnFailure},
		{"busy, waits for itself", []error{busy, holdfast.ErrDeadlock}, output.ExitOwnFailure},
	} {
		o := &lockOptions{conflictCode: 5, skipOK: true}
		err := o.notAcquired(t.Context(), fmt.Errorf("lock %q: %w", "job", errors.Join(test.errs...)))
		var ended *output.ExitError
		if !errors.As(err, &ended) || ended.Code != test.want || ended.Err == nil {
			t.Errorf("%s: got %v, want status %d and what happened", test.name, err, test.want)
			continue
		}
		r := &runner{runOptions: &runOptions{lockOptions: *o}, report: output.NewReporter(output.Environment{Stderr: io.Discard}, false)}
		if skipped := r.skipped(err) == nil; skipped != (test.want == 5) {
			t.Errorf("%s: got skipped %v, want that of busy locks only", test.name, skipped)
		}
	}
}

// Who ends the program need not read what the store said meanwhile.
func TestStatusOfASignalComesFirst(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGINT
	ctx, done := interruptible(t.Context(), signals)
	defer done()
	<-ctx.Done()
	o := &lockOptions{conflictCode: 5}
	err := o.notAcquired(ctx, errors.Join(&holdfast.BusyError{}, driver.ErrRefused, ctx.Err()))
	var ended *output.ExitError
	if !errors.As(err, &ended) || ended.Code != 130 || ended.Err != nil {
		t.Errorf("got %v, want status 130 and no message", err)
	}
}

// Windows has neither run nor elect: one sentence says so, and what there is.
func TestSystemsWithoutProcessGroups(t *testing.T) {
	err := checkSystem("elect", false)
	var exit *output.ExitError
	if !errors.As(err, &exit) || exit.Code != output.ExitUsage || !strings.Contains(err.Error(), "elect is not available on this system") {
		t.Errorf("got %v, want status %d and a sentence that says so", err, output.ExitUsage)
	}
	if err := checkSystem("run", true); err != nil {
		t.Errorf("got %v for a system that has them", err)
	}
}
