package store

import (
	"context"
	"errors"
	"fmt"
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

// How long the program waits for the servers of a quorum. After that it starts without those
// that have not answered.
const (
	introduction = time.Second
	stragglers   = 300 * time.Millisecond // after the answers of a majority
)

// openLocks opens the store that the flags name. It may be several servers, of which a
// majority must agree on each lock.
func (o *Connection) openLocks(ctx context.Context, r Request, env output.Environment, report *output.Reporter) (*Store, error) {
	if err := o.prepare(env, report); err != nil {
		return nil, err
	}
	urls, source := o.servers(env)
	if len(urls) == 0 {
		return o.Open(ctx, r, env, report)
	}
	if o.EventLog {
		return nil, output.UsageError("several servers have no event log: leave out --event-log, or say --event-log=false where the configuration has it")
	}
	accesses, err := Accesses(ctx, *o, source, urls, env, report)
	if err != nil {
		return nil, err
	}
	locks, err := o.redisOptions(r.Logger)
	if err != nil {
		return nil, err
	}
	conns := make([]*lateConn, len(accesses))
	members := make([]driver.Backend, len(accesses))
	for i, a := range accesses {
		conns[i] = newLateConn(a)
		members[i] = redishold.New(conns[i], locks)
	}
	backend, err := quorum.Of(members...)
	if err != nil {
		return nil, output.UsageError("%s: %w", source, err)
	}
	if err := checkLimits(r, backend.Info()); err != nil {
		return nil, err
	}
	opened := open.Several(backend, func() {
		for _, c := range conns {
			c.close()
		}
	})
	if err := meet(ctx, source, conns, report); err != nil {
		opened.Close()
		return nil, err
	}
	return &Store{Store: opened}, nil
}

// servers returns the URLs of the servers that are one store together, and where they were
// found. It returns none if the store is a single one.
func (o *Connection) servers(env output.Environment) (urls []string, source string) {
	if len(o.more) > 0 {
		return slices.Concat([]string{o.URL}, o.more), "--url"
	}
	if _, elsewhere := o.named(env); elsewhere {
		return nil, ""
	}
	return o.Config.List("redlock"), o.Config.Where("redlock")
}

// meet connects to all servers. It warns about a server that is unreachable, because the
// others may be enough. It returns an error only if waiting does not fix it.
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
		if errors.As(OpenError(first, open.Redis, source, err), &own) && own.Code != output.ExitUnreachable {
			return &output.ExitError{Code: own.Code, Err: fmt.Errorf("%s: %w", where, own.Err)}
		}
		report.Warn("%s is unreachable, the others have to agree: %v", where, err)
	}
	return nil
}

// Accesses returns how to reach the servers at urls. The parameter source says where the URLs
// were found. All servers get the same user, password and certificates. The user must type a
// password only once.
func Accesses(ctx context.Context, c Connection, source string, urls []string, env output.Environment, report *output.Reporter) ([]access.Access, error) {
	var all []access.Access
	typed := false
	for _, address := range urls {
		if err := checkURL(address, source); err != nil {
			return nil, err
		}
		if kind := KindOf(address); kind != open.Redis {
			return nil, output.UsageError("%s: only servers of Redis can be several stores that have to agree; of %s name one, or all members of a cluster in one URL", source, kind.Title())
		}
		a, err := c.Access(ctx, address, env, report)
		if err != nil {
			return nil, err
		}
		if typed {
			a.Password = all[0].Password
		}
		typed, c.askpass = typed || c.askpass, false
		all = append(all, a)
	}
	c.Warn(report, urls...)
	return all, nil
}
