package redishold

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

const (
	listShown = 32  // holders and waiters of each name that are shown
	listChunk = 40  // names that are read with one call
	listPage  = 200 // keys that one SCAN looks at
	listValue = 512 // bytes of a plain lock's value: longer ones are no locks
)

// peopleScripts are what tells people of locks. They are loaded when first used: most
// programs never do.
type peopleScripts struct {
	once sync.Once

	scan, masters, look, plain, timestamp, keys, marks, waits *Script // change nothing
	tell, wakeFair                                            *Script
	reportHolds, reportWait                                   *Script
	addLog, readLog                                           *Script
}

// load returns the scripts.
func (s *peopleScripts) load() *peopleScripts {
	s.once.Do(func() {
		s.scan = loadScript("list_scan")
		s.masters = loadScript("list_masters")
		s.look = loadScript("list_look")
		s.plain = loadScript("list_plain")
		s.timestamp = loadScript("list_timestamp")
		s.keys = loadScript("list_keys")
		s.marks = loadScript("list_marks")
		s.waits = loadScript("list_waits")
		s.tell = loadScript("tell")
		s.wakeFair = loadScript("fair_wake")
		s.reportHolds = loadScript("report")
		s.reportWait = loadScript("report_wait")
		s.addLog = loadScript("history_add")
		s.readLog = loadScript("history_read")
	})
	return s
}

// lister returns b ready to look at names.
func (b *Backend) lister(ctx context.Context) (*lister, error) {
	if b.invalid != nil {
		return nil, b.invalid
	}
	info, err := b.ask(ctx)
	if err != nil {
		return nil, err
	}
	return &lister{Backend: b, scripts: b.forPeople.load(), info: info}, nil
}

// lister looks at names.
type lister struct {
	*Backend
	scripts *peopleScripts
	info    ServerInfo
	spent   int // how many commands the server was asked to run, about
}

// List walks over what is locked, with SCAN: on one server, or on every master of
// a cluster. It tells locks from other data by their type and layout; the name of
// a Record is without Options.Prefix, and keys without that prefix are left out.
//
// With the protocols Plain and Timestamp every short string, and every time in
// seconds, is a lock. With Redisson's, a semaphore is found by the permits that
// are out, and a fair lock only while it is held. Bare counters are looked for
// only where f.Counters asks for them.
//
// The user needs the rights to SCAN, HSCAN, GETRANGE, LLEN and, in a cluster,
// CLUSTER SLOTS. Without PUBSUB Record.Listeners is -1. In a cluster it counts
// those who listen on sharded channels, as Holdfast and Redisson from 3.28 do.
//
// A node that does not answer leaves its locks out; the error comes at the end.
func (b *Backend) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		l, err := b.lister(ctx)
		if err != nil {
			yield(admin.Record{}, err)
			return
		}
		w := walk{lister: l, limits: f, yield: yield, begun: time.Now(), seen: map[string]bool{}}
		if err := w.run(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(admin.Record{}, err)
		}
	}
}

// Get returns what is kept of names, in the same order. On one server a call
// reads 40 names at one instant, with about three commands for each; in a cluster
// each name is a call. Rights are as for List, without SCAN.
func (b *Backend) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	l, err := b.lister(ctx)
	if err != nil {
		return nil, err
	}
	return l.look(ctx, names)
}

// look reads names, one chunk after the other, and who their holders are.
func (l *lister) look(ctx context.Context, names []string) ([]admin.Record, error) {
	records := make([]admin.Record, 0, len(names))
	var failed error
	for len(names) > 0 {
		chunk := names[:min(listChunk, len(names))]
		names = names[len(chunk):]
		read, err := l.read(ctx, chunk)
		failed = cmp.Or(failed, err)
		records = append(records, read...)
	}
	l.introduce(ctx, records)
	return records, failed
}

// read reads the names of one chunk: with one call, or in a cluster with one for
// each name, as they lie in different slots. What could not be read is
// KindUnknown; the error is the first of those.
func (l *lister) read(ctx context.Context, names []string) ([]admin.Record, error) {
	records := make([]admin.Record, len(names))
	var failed error
	var calls []Call
	var asked [][]int // of each call, the indices of its names
	for i, name := range names {
		records[i] = admin.Record{Name: name, Kind: admin.KindUnknown, Listeners: -1}
		p := l.layout.locate(name)
		if err := placeable(p); l.info.Cluster && err != nil {
			failed = cmp.Or(failed, refused("redis cannot place %q: %w", p.lock, err))
			continue
		}
		if len(calls) == 0 || l.info.Cluster {
			calls, asked = append(calls, l.lookCall()), append(asked, nil)
		}
		last := len(calls) - 1
		l.addName(&calls[last], p)
		asked[last] = append(asked[last], i)
	}
	if len(calls) == 0 {
		return records, failed
	}
	for i, result := range l.do(ctx, calls...) {
		failed = cmp.Or(failed, l.fill(records, asked[i], calls[i].Script, result))
	}
	return records, failed
}

// lookCall returns a call that looks at no name yet.
func (l *lister) lookCall() Call {
	switch l.options.Protocol {
	case Plain:
		return Call{Script: l.scripts.plain, Args: []string{strconv.Itoa(listValue), l.info.listening()}}
	case Timestamp:
		return Call{Script: l.scripts.timestamp, Args: []string{strconv.Itoa(listValue), l.info.listening()}}
	}
	return Call{Script: l.scripts.look, Args: []string{strconv.Itoa(listShown), l.info.listening()}}
}

// addName adds the name that lives at p to a call of lookCall.
func (l *lister) addName(c *Call, p place) {
	if l.own != nil {
		c.Keys, c.Args = append(c.Keys, p.lock), append(c.Args, p.channel)
		if l.options.Protocol == Timestamp {
			c.Keys = append(c.Keys, l.layout.record(p))
		}
		return
	}
	queue, deadlines, alive := l.layout.queue(p)
	c.Keys = append(c.Keys, p.lock, queue, deadlines, alive, l.layout.permits(p))
	c.Args = append(c.Args, tagged(p.lock), p.channel, rwChannel(p), semaphoreChannel(p), latchChannel(p))
}

// fill puts the answer about the names of the given indices into records.
func (l *lister) fill(records []admin.Record, indices []int, script *Script, result Result) error {
	l.spent += 3
	if result.Err != nil {
		return l.classify(l.layout.locate(records[indices[0]].Name), result.Err)
	}
	list, _ := result.Value.([]any)
	if len(list) != len(indices) {
		return badReply(script.Name(), result.Value)
	}
	parse := parseLooked
	if l.own != nil {
		parse = l.parseString
	}
	for i, at := range indices {
		record, ok := parse(list[i])
		if !ok {
			return badReply(script.Name(), list[i])
		}
		record.Name = records[at].Name
		records[at] = record
		l.spent += 3 + len(record.Waiters)
		if record.Kind == admin.KindReadWrite {
			l.spent += len(record.Holds)
		}
	}
	return nil
}

// listening is how PUBSUB counts who listens, "" if it cannot. In a cluster a
// node knows its own clients only, and those of a sharded channel are all its own.
func (i ServerInfo) listening() string {
	switch {
	case !i.Cluster:
		return "NUMSUB"
	case i.ShardedPS:
		return "SHARDNUMSUB"
	default:
		return ""
	}
}
