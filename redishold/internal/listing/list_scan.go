package listing

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/budget"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// errStopped says that the reader has seen enough.
var errStopped = errors.New("stopped")

// walk is one List: a SCAN of each type of key that a lock can be, on each master,
// page by page in turn, so that a budget that ends early has seen some of each.
type scanner struct {
	*lister
	limits admin.Filter
	budget *budget.Budget
	yield  func(admin.Record, error) bool
	seen   map[string]bool // names that were yielded: SCAN may tell them twice
}

type scan struct {
	route         string // a key of the master that is meant
	kind, pattern string
	cursor        string // "" at the end
}

// run walks to the end, or until ctx or the budget ends. The trouble of one master
// does not keep the others out; it is the error at the end.
func (w *scanner) run(ctx context.Context) error {
	routes, err := w.routes(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, route := range routes {
		for scans := w.scans(route); len(scans) > 0; {
			for i := range scans {
				err := w.page(ctx, &scans[i])
				if ctx.Err() != nil || errors.Is(err, errStopped) || errors.Is(err, admin.ErrIncomplete) {
					return err
				}
				if err != nil {
					failed, scans[i].cursor = err, ""
				}
			}
			scans = slices.DeleteFunc(scans, func(s scan) bool { return s.cursor == "" })
		}
	}
	return failed
}

// routes returns a key for each master: calls with that key go there.
func (w *scanner) routes(ctx context.Context) ([]string, error) {
	if !w.server.Cluster {
		return []string{w.Layout.Prefix + "holdfast:list"}, nil
	}
	k := w.Layout.ComputeKeys("holdfast:list")
	if err := layout.CheckSlots(k); err != nil {
		return nil, wire.Refused("redis cannot place %q: %w", k.Lock, err)
	}
	if strings.Contains(w.Layout.Prefix, "{") {
		return []string{k.Lock}, nil // everything is in one slot
	}
	value, err := w.Call(ctx, wire.Call{Script: w.Script("list_masters")})
	if err != nil {
		return nil, w.Layout.Classify(k, err)
	}
	var routes []string
	r := wire.Read(value)
	for r.More() {
		r.Take() // its id
		slot := r.Number()
		if slot < 0 || slot >= layout.SlotCount {
			return nil, wire.BadReply("list_masters", value)
		}
		number := strconv.FormatUint(uint64(w.Layout.Slots()[slot]), 10)
		routes = append(routes, w.Layout.Prefix+"holdfast:list:{"+number+"}")
	}
	if !r.Done() || len(routes) == 0 {
		return nil, wire.BadReply("list_masters", value)
	}
	return routes, nil
}

func (w *scanner) scans(route string) []scan {
	begin := literal(w.Layout.Prefix + w.limits.NamePrefix)
	strs := scan{route: route, kind: "string", pattern: begin + "*", cursor: "0"}
	if w.Layout.Name != "" {
		return []scan{strs}
	}
	permits := scan{route: route, kind: "zset", pattern: begin + "*:timeout", cursor: "0"}
	scans := []scan{{route: route, kind: "hash", pattern: begin + "*", cursor: "0"}, permits}
	if begin != "" && !strings.Contains(begin, "{") { // one pattern for both would begin with a star, and be slow
		permits.pattern = "{" + permits.pattern
		scans = append(scans, permits)
	}
	if w.limits.Counters {
		scans = append(scans, strs)
	}
	return scans
}

// page reads the next page of s and yields what is locked of it.
func (w *scanner) page(ctx context.Context, s *scan) error {
	w.spend()
	size, err := w.budget.Page(ctx, keysPerScan)
	if err != nil {
		return err
	}
	w.spent++ // SCAN in a script is two
	value, err := w.Call(ctx, wire.Call{
		Script: w.Script("list_scan"),
		Keys:   []string{s.route},
		Args:   []string{s.cursor, s.pattern, s.kind, strconv.Itoa(size)},
	})
	if err != nil {
		return w.refused(s, err)
	}
	r := wire.Read(value)
	cursor, keys := r.Text(), r.Texts()
	if !r.Done() || cursor == "" {
		return wire.BadReply("list_scan", value)
	}
	if s.cursor = cursor; cursor == "0" {
		s.cursor = ""
	}
	return w.yieldLocked(ctx, w.names(s.kind, keys))
}

// refused returns what is wrong where a page of s cannot be had.
func (w *scanner) refused(s *scan, err error) error {
	const does = "redis refuses SCAN, which finds locks"
	k, words := layout.Keys{Name: s.pattern, Lock: s.pattern}, wire.ReplyText(err)
	switch {
	case wire.Means(err, wire.MeansNoCommand):
		lacking := wire.Lacking(does, words)
		lacking.Advice = wire.NoCommand + "; a lock can be read by its name"
		return lacking
	case wire.Means(err, wire.MeansNoRightInside):
		return wire.Ungranted(does, words, w.Layout.Grants(k, "", "SCAN", words))
	}
	return w.Layout.Classify(k, err)
}

// show looks at names, a few at a time, and yields those that are locked.
func (w *scanner) yieldLocked(ctx context.Context, names []string) error {
	for chunk := range slices.Chunk(names, namesPerCall) {
		w.spend()
		if err := w.budget.Wait(ctx); err != nil {
			return err
		}
		records, err := w.fetch(ctx, chunk)
		for _, r := range records {
			if !w.locked(r) || w.seen[r.Name] {
				continue
			}
			w.seen[r.Name] = true
			if !w.yield(r, nil) {
				return errStopped
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *scanner) locked(r admin.Record) bool {
	switch r.Kind {
	case "", admin.KindOther, admin.KindUnknown:
		return false
	case admin.KindCounter, admin.KindLatch:
		return w.limits.Counters
	case admin.KindSemaphore:
		const noKey = -2 * time.Millisecond
		return r.Remaining != noKey // of "jobs" and "{jobs}", whose permits have one key, it is the other
	default:
		return true
	}
}

// count counts for the budget what was spent since it did last.
func (w *scanner) spend() {
	w.budget.Spent(w.spent)
	w.spent = 0
}

// names returns the names that keys of a type may belong to, without those seen
// before and those of keys that stand beside a lock.
func (w *scanner) names(kind string, keys []string) []string {
	var names []string
	add := func(lock string) {
		name, ok := strings.CutPrefix(lock, w.Layout.Prefix)
		if !ok || !strings.HasPrefix(name, w.limits.NamePrefix) || name == "" || w.seen[name] || w.Layout.IsAuxiliary(lock) {
			return
		}
		if w.server.Cluster && layout.CheckSlots(w.Layout.ComputeKeys(name)) != nil {
			return // nobody can lock that
		}
		names = append(names, name)
	}
	for _, key := range keys {
		if kind != "zset" {
			add(key)
			continue
		}
		lock := strings.TrimSuffix(key, ":timeout")
		if strings.Contains(lock, "{") {
			add(lock)
		}
		if other, ok := layout.Unwrapped(lock); ok {
			add(other)
		}
	}
	return names
}

// literal returns s so that a pattern matches it as it is.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(s)
}
