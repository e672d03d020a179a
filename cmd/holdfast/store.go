package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// openPatience is how long a store may take to answer the first time before people see that
// it does not.
const openPatience = time.Second

// store is where the locks are.
type store struct {
	*open.Store
	where    string               // the URL without passwords
	layout   string               // of a Redis: redisson, plain or timestamp
	imported *importconf.Settings // nil without the file of a Java program
}

// storeOptions say which store, and how.
type storeOptions struct {
	connectOptions
	name   string // of the lock; "" means no lock, or many
	prefix string
	ttl    time.Duration // of the locks; 0 means the default
	need   need          // nil needs nothing
	logger *slog.Logger
}

// openStore opens the store that the flags or the environment name.
func openStore(ctx context.Context, o storeOptions, env output.Environment, report *output.Reporter) (*store, error) {
	if err := o.prepare(env, report); err != nil {
		return nil, err
	}
	address, source, err := o.address(env)
	if err != nil {
		return nil, err
	}
	engine, err := o.engine()
	if err != nil {
		return nil, err
	}
	engine.KeyPrefix, engine.Logger = o.prefix, o.logger
	a, err := o.access(ctx, address, env, report)
	if err != nil {
		return nil, err
	}
	target, err := open.Parse(open.Request{Access: a, TTL: o.ttl, Redis: engine, Logger: o.logger})
	if err != nil {
		return nil, output.UsageError("%s: %w", source, err)
	}
	if err := checkLimits(o.name, o.ttl, target.Info()); err != nil {
		return nil, err
	}
	if err := o.suit(target); err != nil {
		return nil, err
	}
	o.warn(report, address)
	slow := time.AfterFunc(openPatience, func() {
		report.Once(output.LevelNotice, fmt.Sprintf("waiting for an answer of %s at %s", target.Kind.Title(), placeOf(a)))
	})
	s, err := target.Open(ctx)
	slow.Stop()
	if err != nil {
		return nil, openError(ctx, target.Kind, source, err)
	}
	opened := &store{Store: s, where: placeOf(a), imported: o.imported}
	if s.Redis != nil {
		opened.layout = engine.Layout.String()
	}
	return opened, nil
}

// checkLimits refuses a name and a TTL that the store does not keep.
func checkLimits(name string, ttl time.Duration, info driver.Info) error {
	switch {
	case info.MaxName > 0 && len(name) > info.MaxName:
		return output.UsageError("the name %.20q… has %d bytes; %s takes at most %d", name, len(name), info.Name, info.MaxName)
	case info.MaxTTL > 0 && ttl > info.MaxTTL:
		return output.UsageError("--ttl %s is too long for %s; use at most %s", ttl, info.Name, info.MaxTTL)
	}
	return nil
}

// suit refuses flags that are not for this store, and what it lacks.
func (o storeOptions) suit(t *open.Target) error {
	if t.Kind != open.Redis {
		if err := o.onlyForRedis(t); err != nil {
			return err
		}
	}
	if o.need == nil {
		return nil
	}
	return o.need(t)
}

// onlyForRedis refuses flags that are only for Redis.
func (o storeOptions) onlyForRedis(t *open.Target) error {
	title, info := t.Kind.Title(), t.Info()
	switch {
	case o.redisFlag != "":
		return output.UsageError("--%s is for Redis, and not for %s", o.redisFlag, title)
	case o.prefix != "":
		return output.UsageError("--prefix, which may be from HOLDFAST_PREFIX or the configuration, is for Redis: %s keeps a lock under its own name; begin that with %q", title, o.prefix)
	case o.eventLog:
		return output.UsageError("%s has no event log: leave out --event-log, or say --event-log=false where the configuration has it", title)
	case o.ttl == 0:
		return nil
	case info.SessionTTL > 0 && o.ttl != info.SessionTTL:
		return output.UsageError("--ttl %s: %s keeps leases of whole seconds; use %s", o.ttl, title, info.SessionTTL)
	case o.ttl < info.MinTTL:
		return output.UsageError("--ttl %s is too short for %s; use at least %s", o.ttl, title, info.MinTTL)
	}
	return nil
}

// openError gives the error of Open its status. What is neither the answer of a Redis
// nor a failure to reach it is wrong with the URL, which came from source.
func openError(ctx context.Context, kind open.Kind, source string, err error) error {
	var reply *redishold.ReplyError
	if !errors.As(err, &reply) {
		if ctx.Err() == nil && !errors.Is(err, driver.ErrNotExecuted) {
			return output.UsageError("%s: %w", source, err)
		}
		return output.StoreError(failureOf(kind, err))
	}
	switch {
	case strings.HasPrefix(reply.Text, "NOAUTH"):
		return &output.ExitError{Code: output.ExitRefused, Err: errors.New("the Redis asks for a password (NOAUTH): give it with --askpass, REDISCLI_AUTH or HOLDFAST_PASSWORD_FILE")}
	case strings.Contains(reply.Text, "DB index is out of range"), strings.Contains(reply.Text, "SELECT is not allowed"):
		return output.UsageError("%s: %w", source, err)
	}
	return output.StoreError(failureOf(kind, err))
}

// failureOf gives an error of a store that is no Redis its status where the store has
// refused: what a Redis says, output.StoreError knows. A table that is not there has a remedy.
func failureOf(kind open.Kind, err error) error {
	var own *output.ExitError
	switch {
	case kind == "" || kind == open.Redis || !errors.Is(err, driver.ErrRefused) || errors.As(err, &own):
		return err
	case open.Unfit(err): // refused by this program, and not by the server
		return &output.ExitError{Code: output.ExitUsage, Err: err}
	case open.NoTable(err):
		err = fmt.Errorf("%w\n  or have holdfast make it, once: add create=true to the parameters of the URL", err)
	}
	return &output.ExitError{Code: output.ExitRefused, Err: err}
}

// placeOf says where a store is, without what is secret.
func placeOf(a access.Access) string {
	if a.URL == "" && a.Imported != nil {
		return strings.Join(a.Imported.Nodes, " or ")
	}
	return redisurl.Redacted(a.URL)
}
