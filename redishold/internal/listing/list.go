// Package listing looks at the locks of a store, for people.
package listing

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/budget"
	"github.com/holdfast-go/holdfast/redishold/internal/clients"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

const (
	listShown = 32  // holders and waiters of each name that are shown
	listChunk = 40  // names that are read with one call
	listPage  = 200 // keys that one SCAN looks at
	listValue = 512 // bytes of a plain lock's value: longer ones are no locks
)

// begin returns a lister of the locks of c's store.
func begin(ctx context.Context, c *clients.Clients) (*lister, error) {
	server, err := c.Info(ctx)
	return &lister{Clients: c, server: server}, err
}

type lister struct {
	*clients.Clients
	server wire.Server
	spent  int // how many commands the server was asked to run, about
}

// List walks over what is locked, see redishold.Backend.
func List(ctx context.Context, c *clients.Clients, f admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		l, err := begin(ctx, c)
		if err != nil {
			yield(admin.Record{}, err)
			return
		}
		w := walk{lister: l, limits: f, yield: yield, budget: budget.New(f), seen: map[string]bool{}}
		if err := w.run(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(admin.Record{}, err)
		}
	}
}

// Get returns what is kept of names, in the same order.
func Get(ctx context.Context, c *clients.Clients, names ...string) ([]admin.Record, error) {
	l, err := begin(ctx, c)
	if err != nil {
		return nil, err
	}
	return l.fetch(ctx, names)
}

// fetch reads names, one chunk after the other, and who their holders are.
func (l *lister) fetch(ctx context.Context, names []string) ([]admin.Record, error) {
	records := make([]admin.Record, 0, len(names))
	var failed error
	for chunk := range slices.Chunk(names, listChunk) {
		read, err := l.read(ctx, chunk)
		failed = cmp.Or(failed, err)
		records = append(records, read...)
	}
	l.spent += l.Introduce(ctx, l.server.Cluster, records)
	return records, failed
}

// read reads the names of one chunk: with one call, or in a cluster with one for
// each name, as they lie in different slots. What could not be read is
// KindUnknown; the error is the first of those.
func (l *lister) read(ctx context.Context, names []string) ([]admin.Record, error) {
	records := make([]admin.Record, len(names))
	var failed error
	var calls []wire.Call
	var asked [][]int // of each call, the indices of its names
	for i, name := range names {
		records[i] = admin.Record{Name: name, Kind: admin.KindUnknown, Listeners: -1}
		p := l.Layout.Locate(name)
		if err := layout.Placeable(p); l.server.Cluster && err != nil {
			failed = cmp.Or(failed, wire.Refused("redis cannot place %q: %w", p.Lock, err))
			continue
		}
		if len(calls) == 0 || l.server.Cluster {
			look, most := "list_redisson", listShown
			if l.Layout.Own != "" {
				look, most = "list_"+l.Layout.Own, listValue
			}
			calls = append(calls, wire.Call{Script: l.Script(look), Args: []string{strconv.Itoa(most), l.server.Listening()}})
			asked = append(asked, nil)
		}
		last := len(calls) - 1
		l.addName(&calls[last], p)
		asked[last] = append(asked[last], i)
	}
	if len(calls) == 0 {
		return records, failed
	}
	for i, result := range l.Do(ctx, calls...) {
		failed = cmp.Or(failed, l.fill(records, asked[i], calls[i].Script, result))
	}
	return records, failed
}

// addName adds the name that lives at p to a call that looks at names.
func (l *lister) addName(c *wire.Call, p layout.Place) {
	if l.Layout.Own != "" {
		c.Keys, c.Args = append(c.Keys, p.Lock), append(c.Args, p.Channel)
		if l.Layout.Own == "timestamp" {
			c.Keys = append(c.Keys, l.Layout.Record(p))
		}
		return
	}
	queue, deadlines, alive := l.Layout.Queue(p)
	c.Keys = append(c.Keys, p.Lock, queue, deadlines, alive, l.Layout.Permits(p))
	c.Args = append(c.Args, layout.Tagged(p.Lock), p.Channel, layout.ReadWriteChannel(p), layout.SemaphoreChannel(p), layout.LatchChannel(p))
}

// fill puts the answer about the names of the given indices into records.
func (l *lister) fill(records []admin.Record, indices []int, script *wire.Script, result wire.Result) error {
	l.spent += 3
	if result.Err != nil {
		return l.Layout.Classify(l.Layout.Locate(records[indices[0]].Name), result.Err)
	}
	list, _ := result.Value.([]any)
	if len(list) != len(indices) {
		return wire.BadReply(script.Name(), result.Value)
	}
	parse := parseLooked
	if l.Layout.Own != "" {
		parse = l.parseString
	}
	for i, at := range indices {
		record, ok := parse(list[i])
		if !ok {
			return wire.BadReply(script.Name(), list[i])
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
