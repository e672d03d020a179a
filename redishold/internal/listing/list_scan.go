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

// errStopped means that the caller has ended the iteration.
var errStopped = errors.New("stopped")

// scanner runs one List. On each master it makes a SCAN for each type of key that a lock can
// have. It reads one page of each type in turn. So, if the budget ends early, it has found some
// keys of each type.
type scanner struct {
	*lister
	limits admin.Filter
	budget *budget.Budget
	yield  func(admin.Record, error) bool
	seen   map[string]bool // names that were already yielded; SCAN may return a key twice

	routes, counted int // how many masters there are, and how many of them have counted their keys
	all             int // the number of keys of these masters
	keys            int // the number of keys that the scans have looked at; each scan of a master looks at all keys
	kinds           int // the number of scans of each master
}

// scan is a SCAN for one type of key on one master.
type scan struct {
	route         string // a key that routes the call to the master
	kind, pattern string
	cursor        string // "" after the last page
}

// run scans to the end, or until ctx or the budget ends. If a master fails, run scans the
// others, and returns the error at the end.
func (sc *scanner) run(ctx context.Context) error {
	routes, err := sc.masters(ctx)
	if err != nil {
		return err
	}
	sc.routes = len(routes)
	var failed error
	for _, route := range routes {
		scans := sc.scans(route)
		sc.kinds = len(scans)
		for first := sc.limits.Progress != nil; len(scans) > 0; first = false {
			for i := range scans {
				err := sc.page(ctx, &scans[i], first && i == 0)
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

// masters returns a key for each master. A call with such a key goes to that master.
func (sc *scanner) masters(ctx context.Context) ([]string, error) {
	if !sc.server.Cluster {
		return []string{sc.Layout.Prefix + "holdfast:list"}, nil
	}
	k := sc.Layout.ComputeKeys("holdfast:list")
	if err := layout.CheckSlots(k); err != nil {
		return nil, wire.Refused("redis cannot place %q: %w", k.Lock, err)
	}
	if strings.Contains(sc.Layout.Prefix, "{") {
		return []string{k.Lock}, nil // everything is in one slot
	}
	value, err := sc.Call(ctx, wire.Call{Script: sc.Script("list_masters")})
	if err != nil {
		return nil, sc.Layout.Classify(k, err)
	}
	var routes []string
	r := wire.Read(value)
	for r.More() {
		r.Take() // the id of the master
		slot := r.Number()
		if slot < 0 || slot >= layout.SlotCount {
			return nil, wire.BadReply("list_masters", value)
		}
		number := strconv.FormatUint(uint64(sc.Layout.Slots.Of(int(slot))), 10)
		routes = append(routes, sc.Layout.Prefix+"holdfast:list:{"+number+"}")
	}
	if !r.Done() || len(routes) == 0 {
		return nil, wire.BadReply("list_masters", value)
	}
	return routes, nil
}

func (sc *scanner) scans(route string) []scan {
	prefix := literal(sc.Layout.Prefix + sc.limits.NamePrefix)
	strs := scan{route: route, kind: "string", pattern: prefix + "*", cursor: "0"}
	if sc.Layout.Name != "" {
		return []scan{strs}
	}
	permits := scan{route: route, kind: "zset", pattern: prefix + "*:timeout", cursor: "0"}
	scans := []scan{{route: route, kind: "hash", pattern: prefix + "*", cursor: "0"}, permits}
	if prefix != "" && !strings.Contains(prefix, "{") { // one pattern for names with and without braces would begin with a star, and be slow
		permits.pattern = "{" + permits.pattern
		scans = append(scans, permits)
	}
	if sc.limits.Counters {
		scans = append(scans, strs)
	}
	return scans
}

// page reads the next page of s and yields the locks on it. If `count` is true, it also counts
// the keys of the master.
func (sc *scanner) page(ctx context.Context, s *scan, count bool) error {
	sc.spend()
	size, err := sc.budget.Page(ctx, keysPerScan)
	if err != nil {
		return err
	}
	sc.spent++ // a SCAN in a script counts as two commands
	asked := ""
	if count {
		asked = "1"
		sc.spent++
	}
	value, err := sc.Call(ctx, wire.Call{
		Script: sc.Script("list_scan"),
		Keys:   []string{s.route},
		Args:   []string{s.cursor, s.pattern, s.kind, strconv.Itoa(size), asked},
	})
	if err != nil {
		return sc.refused(s, err)
	}
	r := wire.Read(value)
	cursor, keys, all := r.Text(), r.Texts(), r.Number()
	if !r.Done() || cursor == "" {
		return wire.BadReply("list_scan", value)
	}
	if count && all >= 0 {
		sc.all += int(all)
		sc.counted++
	}
	sc.progress(size)
	if s.cursor = cursor; cursor == "0" {
		s.cursor = ""
	}
	return sc.yieldLocked(ctx, sc.names(s.kind, keys))
}

// progress reports to Filter.Progress that a scan has looked at `size` further keys. A master
// that has not counted its keys yet counts as one that has as many as the others.
func (sc *scanner) progress(size int) {
	sc.keys += size
	if sc.counted > 0 {
		all := sc.all / sc.counted * sc.routes
		sc.limits.Progress(min(sc.keys/sc.kinds, all), all)
	}
}

// refused returns the error of a scan s, if the server has refused to read its next page.
func (sc *scanner) refused(s *scan, err error) error {
	const does = "redis refuses SCAN, which finds locks"
	k, words := layout.Keys{Name: s.pattern, Lock: s.pattern}, wire.ReplyText(err)
	switch {
	case wire.Means(err, wire.MeansNoCommand):
		lacking := wire.Lacking(does, words)
		lacking.Advice = wire.NoCommand + "; a lock can be read by its name"
		return lacking
	case wire.Means(err, wire.MeansNoRightInside):
		return wire.Ungranted(does, words, sc.Layout.Grants(k, "", "SCAN", words))
	}
	return sc.Layout.Classify(k, err)
}

// yieldLocked reads the locks with the given names, a few at a time. It yields the Record of
// each lock that is locked.
func (sc *scanner) yieldLocked(ctx context.Context, names []string) error {
	names, err := sc.skip(names)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(names, namesPerCall) {
		sc.spend()
		if err := sc.budget.Wait(ctx); err != nil {
			return err
		}
		records, err := sc.fetch(ctx, chunk)
		for _, r := range records {
			if !sc.locked(r) || sc.seen[r.Name] {
				continue
			}
			sc.seen[r.Name] = true
			if !sc.yield(r, nil) {
				return errStopped
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// skip returns the names that must be read. It yields a Record without a state for each other
// name.
func (sc *scanner) skip(names []string) (read []string, err error) {
	if sc.limits.Skip == nil {
		return names, nil
	}
	for _, name := range names {
		if sc.seen[name] {
			continue // two keys of this page have this name
		}
		if !sc.limits.Skip(name) {
			read = append(read, name)
			continue
		}
		sc.seen[name] = true
		if !sc.yield(admin.Record{Name: name, Kind: admin.KindUnknown, Listeners: -1}, nil) {
			return nil, errStopped
		}
	}
	return read, nil
}

func (sc *scanner) locked(r admin.Record) bool {
	switch r.Kind {
	case "", admin.KindOther, admin.KindUnknown:
		return false
	case admin.KindCounter, admin.KindLatch:
		return sc.limits.Counters
	case admin.KindSemaphore:
		const noKey = -2 * time.Millisecond
		return r.Remaining != noKey // "jobs" and "{jobs}" have the same key of permits: the name without a counter is not locked
	default:
		return true
	}
}

// spend reports to sc.budget how many commands were sent since the last call of spend.
func (sc *scanner) spend() {
	sc.budget.Spent(sc.spent)
	sc.spent = 0
}

// names returns the names of the locks to which the given keys belong. All keys have the same
// type. It leaves out keys that are not locks, and names that sc has already yielded.
func (sc *scanner) names(kind string, keys []string) []string {
	var names []string
	add := func(lock string) {
		name, ok := strings.CutPrefix(lock, sc.Layout.Prefix)
		if !ok || !strings.HasPrefix(name, sc.limits.NamePrefix) || name == "" || sc.seen[name] || sc.Layout.IsAuxiliary(lock) {
			return
		}
		if sc.server.Cluster && layout.CheckSlots(sc.Layout.ComputeKeys(name)) != nil {
			return // the cluster cannot have this lock
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

// literal returns a pattern that matches exactly s.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(s)
}
