package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
)

// urlFlag is --url. Where it may be given several times, it names independent
// servers that are one store together.
type urlFlag struct {
	first *string
	more  *[]string // nil where one is all there can be
}

// String implements pflag.Value.
func (u *urlFlag) String() string {
	if u.first == nil {
		return ""
	}
	return *u.first
}

// Type implements pflag.Value.
func (u *urlFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (u *urlFlag) Set(text string) error {
	text = open.Complete(text)
	switch {
	case *u.first == "":
		*u.first = text
	case u.more == nil:
		return errors.New("it is given twice; only run, hold and elect can lock on several servers at once")
	default:
		*u.more = append(*u.more, text)
	}
	return nil
}

// How long the program waits for servers of a quorum before it goes on without
// those that have not answered, for now.
const (
	introduction = time.Second
	stragglers   = 300 * time.Millisecond // after a majority has: some round trips to another region
)

// openBackend opens the store that the flags name: one, or several servers of
// which a majority has to agree on each lock.
func (o *lockOptions) openBackend(ctx context.Context, env output.Environment, report *output.Reporter, logger *slog.Logger) (driver.Backend, func(), error) {
	if err := o.prepare(env, report); err != nil {
		return nil, nil, err
	}
	urls, source := o.servers(env)
	if len(urls) == 0 {
		s, err := openStore(ctx, storeOptions{o.connectOptions, o.name, o.prefix, o.ttl, o.needs, logger}, env, report)
		if err != nil {
			return nil, nil, err
		}
		o.kind, o.diagnose = s.Kind, s.Trouble
		return s.Backend, s.Close, nil
	}
	if o.eventLog {
		return nil, nil, output.UsageError("several servers have no event log: leave out --event-log, or say --event-log=false where the configuration has it")
	}
	accesses, err := accessesOf(ctx, o.connectOptions, source, urls, env, report)
	if err != nil {
		return nil, nil, err
	}
	engine, err := o.engine()
	if err != nil {
		return nil, nil, err
	}
	engine.KeyPrefix, engine.Logger = o.prefix, logger
	conns := make([]*lateConn, len(accesses))
	members := make([]driver.Backend, len(accesses))
	for i, a := range accesses {
		conns[i] = newLateConn(a)
		members[i] = redishold.New(conns[i], engine)
	}
	shut := func() {
		for _, c := range conns {
			c.close()
		}
	}
	backend, err := quorum.Of(members...)
	if err != nil {
		return nil, nil, output.UsageError("%s: %w", source, err)
	}
	if err := checkLimits(o.name, o.ttl, backend.Info()); err != nil {
		return nil, nil, err
	}
	if err := meet(ctx, source, conns, report); err != nil {
		shut()
		return nil, nil, err
	}
	return backend, shut, nil
}

// servers returns the URLs of the servers that are one store together, and where
// they were found; none if there is one store.
func (o *lockOptions) servers(env output.Environment) (urls []string, source string) {
	if len(o.more) > 0 {
		return slices.Concat([]string{o.url}, o.more), "--url"
	}
	if _, elsewhere := o.named(env); elsewhere {
		return nil, ""
	}
	return o.config.List("redlock"), o.config.Where("redlock")
}

// meet connects to all servers. One that is unreachable is left for later, with a
// warning, as the others may be enough. What waiting does not fix is an error.
func meet(ctx context.Context, source string, conns []*lateConn, report *output.Reporter) error {
	first, cancel := context.WithTimeout(ctx, introduction)
	defer cancel()
	errs := make([]error, len(conns))
	var wg sync.WaitGroup
	var met atomic.Int32
	for i, c := range conns {
		wg.Go(func() {
			_, errs[i] = c.get(first)
			if errs[i] == nil && int(met.Add(1)) == len(conns)/2+1 {
				time.AfterFunc(stragglers, cancel)
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil || ctx.Err() != nil {
			continue
		}
		where := placeOf(conns[i].access)
		var own *output.ExitError
		if errors.As(openError(first, open.Redis, source, err), &own) && own.Code != output.ExitUnreachable {
			return &output.ExitError{Code: own.Code, Err: fmt.Errorf("%s: %w", where, own.Err)}
		}
		report.Warn("%s is unreachable, the others have to agree: %v", where, err)
	}
	return nil
}

// accessesOf returns how to reach the servers at urls, which came from source. All
// get the same user, password and certificates; a password is asked for once.
func accessesOf(ctx context.Context, c connectOptions, source string, urls []string, env output.Environment, report *output.Reporter) ([]access.Access, error) {
	var all []access.Access
	typed := false
	for _, address := range urls {
		if err := checkURL(address, source); err != nil {
			return nil, err
		}
		if kind := storeKind(address); kind != open.Redis {
			return nil, output.UsageError("%s: only servers of Redis can be several stores that have to agree; of %s name one, or all members of a cluster in one URL", source, kind.Title())
		}
		a, err := c.access(ctx, address, env, report)
		if err != nil {
			return nil, err
		}
		if typed {
			a.Password = all[0].Password
		}
		typed, c.askpass = typed || c.askpass, false
		all = append(all, a)
	}
	c.warn(report, urls...)
	return all, nil
}
