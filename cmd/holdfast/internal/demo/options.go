package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/internal/plural"
	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// Options say how to run the demo. Out, Worker and the numbers must be set.
type Options struct {
	Access open.Access // the Redis to use, one server; without a URL the demo starts a stand-in inside this process
	Locks  open.Access // if it has a URL, the store of the locks, which is not Redis; the shop is then in a stand-in

	Buyers    int // how many buyers there are; more than Items
	Items     int // how many items the shop has
	Processes int // over how many processes the buyers are spread

	Timeout time.Duration // the demo ends with an error after Timeout plus Look
	Look    time.Duration // how long the demo shows a held lock

	Out      io.Writer
	Terminal bool // Out is a terminal that can rewrite its line
	Color    bool

	// Worker is the command line of a process that calls Work with its standard input and
	// output. Env is the environment of that process, as in os/exec.
	Worker []string
	Env    []string

	lease    time.Duration // the TTL of the lock whose holder is paused
	unlocked bool          // for tests: round 2 does not lock
}

const (
	maxBuyers    = 10_000
	maxProcesses = 64

	// defaultLease is the TTL of the lock whose holder is paused, in Redis. leaseElsewhere is
	// its TTL in other stores, because some of them allow only whole seconds, and at least two.
	defaultLease   = 1500 * time.Millisecond
	leaseElsewhere = 2 * time.Second
)

// Check returns an error if a number is not valid.
func (o *Options) Check() error {
	switch {
	case o.Items < 1:
		return errors.New("there must be at least one item")
	case o.Buyers <= o.Items:
		return fmt.Errorf("%s for %s: there must be more buyers than items, because otherwise nobody competes", plural.Count(o.Buyers, "buyer"), plural.Count(o.Items, "item"))
	case o.Buyers > maxBuyers:
		return fmt.Errorf("%d buyers are too many: use at most %d", o.Buyers, maxBuyers)
	case o.Processes < 1 || o.Processes > maxProcesses:
		return fmt.Errorf("%s: use 1 to %d", plural.Count(o.Processes, "process"), maxProcesses)
	case o.Timeout <= 0:
		return fmt.Errorf("timeout of %s: it must be positive", o.Timeout)
	case o.Look < 0:
		return fmt.Errorf("look of %s: it must not be negative", o.Look)
	}
	return nil
}

// CheckURL returns an error if `raw` is not the URL of a single Redis server. In a cluster
// the keys of the demo would be in several slots.
func CheckURL(raw string) error {
	u, hosts, err := redisurl.Parse(raw)
	if err == nil && (strings.ContainsAny(u.Scheme, "+-") || strings.Contains(hosts, ",") || u.Query().Has("addr")) {
		err = errors.New("the demo needs a single server: use redis://host:6379")
	}
	return err
}

// Try takes the lock of the demo in a store that is not Redis, and releases it. It returns an
// error of Target.Open or TryLock if the demo cannot run there. If another demo holds the
// lock, Try returns nil.
func Try(ctx context.Context, t *open.Target) error {
	s, err := t.Open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	locker := holdfast.New(s.Backend, nil)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	defer func() { _ = locker.Drain(ctx) }() // a lock that is still held ends with its lease
	lock, err := locker.TryLock(ctx, sharedName)
	switch {
	case errors.Is(err, holdfast.ErrBusy):
		return nil
	case err != nil:
		return err
	}
	return lock.Unlock()
}
