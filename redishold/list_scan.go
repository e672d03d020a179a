package redishold

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// errStopped says that whoever walks has seen enough.
var errStopped = errors.New("stopped")

// walk is one List: a SCAN of each type of key that a lock can be, on each master,
// page by page in turn, so that a budget that ends early has seen some of each.
type walk struct {
	*lister
	limits admin.Filter
	yield  func(admin.Record, error) bool
	begun  time.Time
	looked int             // how many keys the server looked at, about
	seen   map[string]bool // names that were yielded: SCAN may tell them twice
}

// scan is a SCAN that is under way.
type scan struct {
	route         string // a key of the master that is meant
	kind, pattern string
	cursor        string // "" at the end
}

// run walks to the end, or until ctx or the budget ends. The trouble of one master
// does not keep the others out; it is the error at the end.
func (w *walk) run(ctx context.Context) error {
	routes, err := w.routes(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, route := range routes {
		scans := w.scans(route)
		for open := len(scans); open > 0; {
			for i := range scans {
				if scans[i].cursor == "" {
					continue
				}
				err := w.page(ctx, &scans[i])
				if ctx.Err() != nil || errors.Is(err, errStopped) || errors.Is(err, admin.ErrIncomplete) {
					return err
				}
				if err != nil {
					failed, scans[i].cursor = err, ""
				}
				if scans[i].cursor == "" {
					open--
				}
			}
		}
	}
	return failed
}

// routes returns a key for each master: calls with that key go there.
func (w *walk) routes(ctx context.Context) ([]string, error) {
	if !w.info.Cluster {
		return []string{w.layout.prefix + "holdfast:list"}, nil
	}
	p := w.layout.locate("holdfast:list")
	if err := placeable(p); err != nil {
		return nil, refused("redis cannot place %q: %w", p.lock, err)
	}
	if strings.Contains(w.layout.prefix, "{") {
		return []string{p.lock}, nil // everything is in one slot
	}
	value, err := w.call(ctx, Call{Script: w.scripts.masters})
	if err != nil {
		return nil, w.classify(p, err)
	}
	masters, _ := value.([]any)
	var routes []string
	for i := 0; i+1 < len(masters); i += 2 {
		slot, ok := masters[i+1].(int64)
		if !ok || slot < 0 || slot >= slotCount {
			return nil, badReply(w.scripts.masters.Name(), value)
		}
		number := strconv.FormatUint(uint64(w.layout.slots.of(int(slot))), 10)
		routes = append(routes, w.layout.prefix+"holdfast:list:{"+number+"}")
	}
	if len(routes) == 0 {
		return nil, badReply(w.scripts.masters.Name(), value)
	}
	return routes, nil
}

// scans returns what to look for on one master.
func (w *walk) scans(route string) []scan {
	begin := literal(w.layout.prefix + w.limits.Prefix)
	strs := scan{route: route, kind: "string", pattern: begin + "*", cursor: "0"}
	if w.own != nil {
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
func (w *walk) page(ctx context.Context, s *scan) error {
	size := listPage
	if w.limits.Keys > 0 {
		size = min(size, w.limits.Keys-w.looked)
	}
	if size <= 0 {
		return admin.ErrIncomplete
	}
	if err := w.rest(ctx); err != nil {
		return err
	}
	w.looked += size
	w.spent += 2
	value, err := w.call(ctx, Call{
		Script: w.scripts.scan,
		Keys:   []string{s.route},
		Args:   []string{s.cursor, s.pattern, s.kind, strconv.Itoa(size)},
	})
	if err != nil {
		return w.classify(place{name: s.pattern, lock: s.pattern}, err)
	}
	cursor, keys, ok := parseScan(value)
	if !ok {
		return badReply(w.scripts.scan.Name(), value)
	}
	s.cursor = cursor
	if cursor == "0" {
		s.cursor = ""
	}
	return w.show(ctx, w.names(s.kind, keys))
}

// show looks at names, a few at a time, and yields those that are locked.
func (w *walk) show(ctx context.Context, names []string) error {
	for len(names) > 0 {
		chunk := names[:min(listChunk, len(names))]
		names = names[len(chunk):]
		if err := w.rest(ctx); err != nil {
			return err
		}
		records, err := w.look(ctx, chunk)
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

// locked reports that a List shows r.
func (w *walk) locked(r admin.Record) bool {
	switch r.Kind {
	case "", admin.KindOther, admin.KindUnknown:
		return false
	case admin.KindCounter, admin.KindLatch:
		return w.limits.Counters
	case admin.KindSemaphore:
		return r.Remaining != noKey // of "jobs" and "{jobs}", whose permits have one key, it is the other
	default:
		return true
	}
}

// noKey is how long a key remains that is not there.
const noKey = -2 * time.Millisecond

// rest keeps to the pace.
func (w *walk) rest(ctx context.Context) error {
	const burst = 200 // commands that are not held against it
	if w.limits.Pace <= 0 || w.spent <= burst {
		return ctx.Err()
	}
	due := time.Duration(float64(w.spent-burst) / float64(w.limits.Pace) * float64(time.Second))
	retry.Sleep(ctx, time.Until(w.begun.Add(due)))
	return ctx.Err()
}

// names returns the names that keys of a type may belong to, without those seen
// before and those of keys that stand beside a lock.
func (w *walk) names(kind string, keys []string) []string {
	var names []string
	add := func(lock string) {
		name, ok := strings.CutPrefix(lock, w.layout.prefix)
		if !ok || !strings.HasPrefix(name, w.limits.Prefix) || name == "" || w.seen[name] || w.beside(lock) {
			return
		}
		if w.info.Cluster && placeable(w.layout.locate(name)) != nil {
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
		if n := len(lock) - 1; n > 0 && lock[0] == '{' && lock[n] == '}' && !strings.Contains(lock[1:], "{") {
			add(lock[1:n])
		}
	}
	return names
}

// beside reports that key is one of those that Redisson or Holdfast keep beside
// their locks.
func (w *walk) beside(key string) bool {
	for _, begin := range []string{"redisson_lock_", "redisson_unlock_latch:", "redisson_rwlock", w.layout.prefix + "holdfast:"} {
		if strings.HasPrefix(key, begin) {
			return true
		}
	}
	return strings.Contains(key, ":holdfast:") || strings.Contains(key, ":rwlock_timeout:")
}

// literal returns s so that a pattern matches it as it is.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(s)
}

// parseScan reads what list_scan.lua answers.
func parseScan(value any) (cursor string, keys []string, ok bool) {
	r := reading{list: asList(value), ok: true}
	cursor = r.text()
	keys, ok = texts(r.take())
	return cursor, keys, ok && r.ok && len(r.list) == 0 && cursor != ""
}

// texts reads a list of strings.
func texts(value any) ([]string, bool) {
	list, ok := value.([]any)
	found := make([]string, len(list))
	for i, v := range list {
		text, isText := v.(string)
		found[i], ok = text, ok && isText
	}
	return found, ok
}
