// Package store finds out which store has the locks, from flags, variables and the configuration.
// It gets the password, opens the store, and waits for its answer.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/redishold"
)

// openPatience is how long a store may take for its first answer before a message says that
// the program waits.
const openPatience = time.Second

// Request has what a command needs of a store.
type Request struct {
	Name   string        // of the lock; "" if the command is not about one lock
	TTL    time.Duration // of the locks; 0 means the default
	Logger *slog.Logger  // of the library; nil is silent

	// Need returns an error if the store lacks what the command needs. Open calls it before
	// anything is sent. Need may be nil.
	Need func(*open.Target) error

	// Wait is how long Open repeats its attempt if the store cannot be reached. 0 means one
	// attempt. A negative time means no limit.
	Wait time.Duration
}

// Open opens the store that the flags, the environment or the configuration name. The store may
// be several servers, of which a majority must agree on each lock.
func (o *Connection) Open(ctx context.Context, r Request, env output.Environment, report *output.Reporter) (*open.Store, error) {
	locks, err := o.redisOptions(r.Logger)
	if err != nil {
		return nil, err
	}
	l, err := o.Locate(ctx, env, report)
	if err != nil {
		return nil, err
	}
	if len(l.Servers) > 1 {
		return o.openSeveral(ctx, r, l, locks, report)
	}
	a := l.Servers[0]
	target, err := open.Parse(open.Request{Access: a, TTL: r.TTL, Redis: locks, Logger: r.Logger})
	if err != nil {
		return nil, output.UsageError("%s: %w", l.Source, err)
	}
	if err := o.suits(l.Kind, target.Info(), r); err != nil {
		return nil, err
	}
	if r.Need != nil {
		if err := r.Need(target); err != nil {
			return nil, err
		}
	}
	if warning := target.Exposed(); warning != "" {
		report.Once(slog.LevelWarn, warning)
	}
	return waitFor(ctx, r.Wait, report, func(left time.Duration) (*open.Store, error) {
		slow := time.AfterFunc(openPatience, func() {
			report.Once(output.LevelNotice, fmt.Sprintf("waiting for an answer of %s at %s", l.Kind.Title(), a.Place()))
		})
		defer slow.Stop()
		s, err := target.OpenWithin(ctx, left)
		if err != nil {
			return nil, OpenError(ctx, l.Kind, l.Source, err)
		}
		return s, nil
	})
}

// suits returns an error if a store of this kind does not allow the name or the TTL of r, or a
// flag.
func (o *Connection) suits(kind open.Kind, info driver.Info, r Request) error {
	title := kind.Title()
	switch {
	case info.MaxName > 0 && len(r.Name) > info.MaxName:
		return output.UsageError("the name %.20q… has %d bytes; %s takes at most %d", r.Name, len(r.Name), info.Name, info.MaxName)
	case info.MaxTTL > 0 && r.TTL > info.MaxTTL:
		return output.UsageError("--ttl %s is too long for %s; use at most %s", r.TTL, info.Name, info.MaxTTL)
	case kind == open.Redis:
		return nil
	case o.redisFlag != "":
		return output.UsageError("--%s is for Redis, and not for %s", o.redisFlag, title)
	case o.Prefix != "":
		return output.UsageError("--prefix (or HOLDFAST_PREFIX, or prefix in the configuration) is only for Redis: %s keeps a lock under its own name, so begin the name of the lock with %q", title, o.Prefix)
	case o.EventLog:
		return output.UsageError("%s has no event log: leave out --event-log, or give --event-log=false if the configuration turns it on", title)
	case r.TTL > 0 && info.SessionTTL > 0 && r.TTL != info.SessionTTL:
		return output.UsageError("--ttl %s: %s keeps leases of whole seconds; use %s", r.TTL, title, info.SessionTTL)
	case r.TTL > 0 && r.TTL < info.MinTTL:
		return output.UsageError("--ttl %s is too short for %s; use at least %s", r.TTL, title, info.MinTTL)
	}
	return nil
}

// OpenError adds the exit status to an error of open.Target.Open. For a Redis, an error that is
// neither an answer nor a failure to reach the server is about the URL, which Open reads. The
// text `source` says where the URL was found.
func OpenError(ctx context.Context, kind open.Kind, source string, err error) error {
	reply, isReply := errors.AsType[*redishold.ReplyError](err)
	switch {
	case isReply && strings.HasPrefix(reply.Text, "NOAUTH"):
		return &output.ExitError{Code: output.ExitRefused, Err: errors.New("Redis asks for a password (NOAUTH): give it with --askpass, REDISCLI_AUTH or HOLDFAST_PASSWORD_FILE")}
	case isReply && (strings.Contains(reply.Text, "DB index is out of range") || strings.Contains(reply.Text, "SELECT is not allowed")),
		kind == open.Redis && !isReply && ctx.Err() == nil && !errors.Is(err, driver.ErrNotExecuted):
		return output.UsageError("%s: %w", source, err)
	}
	return output.StoreError(WithAdvice(err))
}

// WithAdvice returns `err`. If a table does not exist, the error also says how to create it.
func WithAdvice(err error) error {
	if errors.Is(err, rows.ErrNoTable) {
		return fmt.Errorf("%w\n  or let holdfast create it: add create=true to the parameters of the URL, once", err)
	}
	return err
}

// Lacks returns the error of a store that lacks a feature. In the error, the text `what`
// follows the name of the store, such as "has no event log".
func Lacks(t *open.Target, what string) error {
	err := fmt.Errorf("%s %s: %w", t.Kind.Title(), what, errors.ErrUnsupported)
	return &output.ExitError{Code: output.ExitOwnFailure, Err: err}
}
