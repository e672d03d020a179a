// Package doctor checks the Redis servers of locks, and reports what endangers the locks:
// settings that let a server forget or remove them, a deployment without failover,
// missing permissions, connections that are too slow for the lease.
//
// It changes no setting. It takes and releases test locks, because only a test lock shows
// whether the user may lock.
package doctor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// Ask sends one command to one server, at most once, and returns the reply. The Value of the
// Result may also be a map.
type Ask = func(ctx context.Context, command ...string) redishold.Result

// Asker is a redishold.Conn that can ask each server separately. The Conns of rueidisconn
// and goredisconn are Askers, and so is rueidisconn.Sentinels. With another Conn most
// findings are Unknown.
type Asker interface {
	// Servers returns one Ask for each known server, by the address of the server. It does not
	// check whether the servers answer.
	Servers(ctx context.Context) (map[string]Ask, error)
}

// Options describe the programs that use the locks. The zero value is a program with the
// default settings.
type Options struct {
	TTL    time.Duration // holdfast.Options.TTL; default 30s
	Margin time.Duration // holdfast.Options.Margin; default TTL/10

	// Redis has the options that the programs pass to redishold.New. KeyPrefix, Layout
	// and Replicas matter here.
	Redis redishold.Options

	// Name is the prefix of lock names, if the permissions of the user depend on this prefix.
	// The test locks have the name Name + "holdfast-doctor".
	Name string

	Sentinels Asker  // the Sentinels; nil if there are none
	Master    string // the name of the master at the Sentinels

	Keys  int // how many keys the doctor reads to find locks without an end; default 20000; if negative, it reads none
	Trips int // how many round trips the doctor measures, for 3 s at most; default 50
}

func (o Options) withDefaults() Options {
	o.TTL = cmp.Or(o.TTL, 30*time.Second)
	o.Margin = cmp.Or(o.Margin, o.TTL/10)
	o.Keys = cmp.Or(o.Keys, 20000)
	o.Trips = cmp.Or(o.Trips, 50)
	return o
}

// spare returns the longest delay of a renewal that is harmless. A renewal is due after a third
// of the lease. It must be complete when the rest of the lease is as short as Margin.
func (o Options) spare() time.Duration { return max(0, o.TTL-o.TTL/3-o.Margin) }

// Examine asks all servers and returns the findings. It takes a few seconds, and longer if a
// server does not answer. If a server does not report a value, for example because a permission
// is missing, the finding is Unknown, and Examine returns no error for that.
//
// It returns an error if ctx has ended, if no server can be reached, or if no server accepts
// the client.
func Examine(ctx context.Context, conn redishold.Conn, opts *Options) (*Report, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	e := &exam{options: o.withDefaults(), conn: conn}
	if err := e.readServers(ctx); err != nil {
		return nil, err
	}
	e.sentinels = e.readSentinels(ctx)
	for _, s := range e.servers {
		e.add(s, checkServer(e, s)...)
	}
	e.add(&server{}, slices.Concat(checkClient(e), checkDeployment(e), e.tryOut(ctx))...)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return e.report(), nil
}

type exam struct {
	options   Options
	conn      redishold.Conn
	servers   []*server
	sentinels []*sentinel
	findings  []Finding
}

// add records findings about s, or about all servers if s has no address.
func (e *exam) add(s *server, findings ...Finding) {
	for _, f := range findings {
		if s.addr != "" && f.Servers == nil {
			f.Servers = []string{s.addr}
		}
		f.Saw = plain(f.Saw)
		e.findings = append(e.findings, f)
	}
}

func (e *exam) cluster() bool { return slices.ContainsFunc(e.servers, (*server).isCluster) }

// hasSentinels reports whether Sentinels monitor the servers.
func (e *exam) hasSentinels() bool {
	return e.options.Sentinels != nil ||
		slices.ContainsFunc(e.servers, func(s *server) bool { return s.sentinels > 0 })
}

// failsOver reports whether a replica may become the master without an operator.
func (e *exam) failsOver() bool { return e.cluster() || e.hasSentinels() }
