// Package listing reads the locks of a store for operators.
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
	maxShown      = 32  // maximal number of holders, and of waiters, that are listed for each name
	namesPerCall  = 40  // number of names that one call reads
	keysPerScan   = 200 // number of keys that one SCAN reads
	maxValueBytes = 512 // maximal number of bytes of the value of a lock in the layouts Plain and Timestamp: a longer string is no lock
)

// newLister returns a lister of the locks in the store of c.
func newLister(ctx context.Context, c *clients.Clients) (*lister, error) {
	server, err := c.Info(ctx)
	return &lister{Clients: c, server: server}, err
}

// lister reads locks by their names.
type lister struct {
	*clients.Clients
	server wire.Server
	spent  int // approximate number of commands that were sent
}

// List returns the locks of a store, see redishold.Backend.
func List(ctx context.Context, c *clients.Clients, f admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		l, err := newLister(ctx, c)
		if err != nil {
			yield(admin.Record{}, err)
			return
		}
		sc := scanner{lister: l, limits: f, yield: yield, budget: budget.New(f), seen: map[string]bool{}}
		if err := sc.run(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(admin.Record{}, err)
		}
	}
}

// Get returns one Record for each of `names`, in the same order.
func Get(ctx context.Context, c *clients.Clients, names ...string) ([]admin.Record, error) {
	l, err := newLister(ctx, c)
	if err != nil {
		return nil, err
	}
	return l.fetch(ctx, names)
}

// fetch returns one Record for each of `names`. The Records have the clients of the holders and
// of the waiters. fetch reads the names in chunks, one after the other.
func (l *lister) fetch(ctx context.Context, names []string) ([]admin.Record, error) {
	records := make([]admin.Record, 0, len(names))
	var failed error
	for chunk := range slices.Chunk(names, namesPerCall) {
		read, err := l.read(ctx, chunk)
		failed = cmp.Or(failed, err)
		records = append(records, read...)
	}
	l.spent += l.AddClients(ctx, l.server.Cluster, records)
	return records, failed
}

// read returns one Record for each of `names`, which are one chunk. It makes one call for the
// whole chunk, and a second one if the chunk has read-write locks with readers. In a cluster it
// makes one call for each name, because the locks are in different slots. The Record of a lock that could not be read has the Kind KindUnknown; read then also
// returns the first error.
func (l *lister) read(ctx context.Context, names []string) ([]admin.Record, error) {
	records := make([]admin.Record, len(names))
	var failed error
	var calls []wire.Call
	var asked [][]int // for each call, the indices of its names
	for i, name := range names {
		records[i] = admin.Record{Name: name, Kind: admin.KindUnknown, Listeners: -1}
		k := l.Layout.ComputeKeys(name)
		if err := layout.CheckSlots(k); l.server.Cluster && err != nil {
			failed = cmp.Or(failed, wire.Refused("redis cannot place %q: %w", k.Lock, err))
			continue
		}
		if len(calls) == 0 || l.server.Cluster {
			script, most := "list_redisson", maxShown
			if l.Layout.Name != "" {
				script, most = "list_"+l.Layout.Name, maxValueBytes
			}
			calls = append(calls, wire.Call{Script: l.Script(script), Args: []string{strconv.Itoa(most), l.server.Listening()}})
			asked = append(asked, nil)
		}
		last := len(calls) - 1
		l.addName(&calls[last], k)
		asked[last] = append(asked[last], i)
	}
	if len(calls) == 0 {
		return records, failed
	}
	for i, result := range l.Do(ctx, calls...) {
		failed = cmp.Or(failed, l.fill(records, asked[i], calls[i].Script, result))
	}
	l.readLeases(ctx, records)
	return records, failed
}

// addName adds the keys and channels of one lock to c, the call that reads several locks.
func (l *lister) addName(c *wire.Call, k layout.Keys) {
	if l.Layout.Name != "" {
		c.Keys, c.Args = append(c.Keys, k.Lock), append(c.Args, k.Channel)
		if l.Layout.Name == "timestamp" {
			c.Keys = append(c.Keys, l.Layout.Record(k))
		}
		return
	}
	queue, deadlines, alive := l.Layout.Queue(k)
	c.Keys = append(c.Keys, k.Lock, queue, deadlines, alive, l.Layout.Permits(k))
	c.Args = append(c.Args, k.Channel, layout.ReadWriteChannel(k), layout.SemaphoreChannel(k), layout.LatchChannel(k))
}

// fill reads the Records in `result`, the result of one call, and writes them into `records` at
// the given indices.
func (l *lister) fill(records []admin.Record, indices []int, script *wire.Script, result wire.Result) error {
	l.spent += 3
	if result.Err != nil {
		return l.Layout.Classify(l.Layout.ComputeKeys(records[indices[0]].Name), result.Err)
	}
	list, _ := result.Value.([]any)
	if len(list) != len(indices) {
		return wire.BadReply(script.Name(), result.Value)
	}
	parse := parseRedisson
	if l.Layout.Name != "" {
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
