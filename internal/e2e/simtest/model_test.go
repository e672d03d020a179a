package simtest

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// model is the data of a Redis server, with the commands of the scripts as far as scripts use
// them. TestModel compares it with a real one.
type model struct {
	keys     map[string]*value
	now      time.Time // the same for all of a script
	commands map[string]command
	hear     func(channel string) int64 // how many listen
	send     func(channel, message string)
}

// command is one for keys of a type, which takes the rest of its arguments, or with "" all of
// them. Its arity is that of COMMAND INFO: with its name, negative for at least.
type command struct {
	arity int
	kind  string
	run   func(m *model, v *value, a []string) any
}

// value is that of a key. A string is one item. Others have their items in the order in
// which a server has a few of them.
type value struct {
	kind  string // as TYPE says
	items []item
	ends  int64 // by the clock in ms; 0 for never
}

type item struct {
	name, text string // text is the value of a field
	score      float64
}

func newModel() *model {
	nobody := func(string) int64 { return 0 }
	return &model{keys: map[string]*value{}, commands: commands(), hear: nobody, send: func(string, string) {}}
}

// get returns a value, or nil. A key ends when it is looked up.
func (m *model) get(key string) *value {
	if v := m.keys[key]; v != nil && v.ends != 0 && m.now.UnixMilli() > v.ends {
		delete(m.keys, key)
	}
	return m.keys[key]
}

func refuse(text string) { panic(&redishold.ReplyError{Text: text}) }

// run runs a command. One that refuses has changed nothing.
func (m *model) run(args []string) (reply any) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *redishold.ReplyError:
			reply = r
		default:
			panic(r)
		}
	}()
	c, a := m.commands[args[0]], args[1:]
	if c.arity >= 0 && len(args) != c.arity || len(args) < -c.arity {
		refuse("ERR Wrong number of args calling Redis command from script, or unknown")
	}
	if c.kind == "" {
		return c.run(m, nil, a)
	}
	v := m.get(a[0])
	switch {
	case v == nil:
		v = &value{kind: c.kind}
	case v.kind == c.kind:
	case args[0] == "SET" && !slices.Contains(a, "GET"):
		v = &value{kind: c.kind, ends: v.ends}
	default:
		refuse("WRONGTYPE Operation against a key holding the wrong kind of value")
	}
	reply = c.run(m, v, a[1:])
	if m.keys[a[0]] = v; len(v.items) == 0 {
		delete(m.keys, a[0])
	}
	return reply
}

func commands() map[string]command {
	type args = []string
	size := func(_ *model, v *value, _ args) any { return int64(len(v.items)) }
	remove := func(_ *model, v *value, a args) any {
		return v.remove(0, func(i item) bool { return slices.Contains(a, i.name) })
	}
	all := func(_ *model, v *value, _ args) any { return listOf(v.items, item.pair) }
	field := func(_ *model, v *value, a args) any { return listOf(a, v.field) }
	score := func(_ *model, v *value, a args) any { return listOf(a, v.score) }
	return map[string]command{
		"TIME": {1, "", func(m *model, _ *value, _ args) any {
			us := m.now.UnixMicro()
			return []any{strconv.FormatInt(us/1e6, 10), strconv.FormatInt(us%1e6, 10)}
		}},
		"PUBLISH": {3, "", func(m *model, _ *value, a args) any { m.send(a[0], a[1]); return m.hear(a[0]) }},
		"PUBSUB": {-2, "", func(m *model, _ *value, a args) any {
			return listOf(a[1:], func(ch string) []any { return []any{ch, m.hear(ch)} })
		}},
		"SCAN":    {8, "", (*model).scan},
		"DEL":     {-2, "", func(m *model, _ *value, a args) any { return m.count(a, func(key string) { delete(m.keys, key) }) }},
		"EXISTS":  {-2, "", func(m *model, _ *value, a args) any { return m.count(a, func(string) {}) }},
		"PTTL":    {2, "", func(m *model, _ *value, a args) any { return m.left(a[0]) }},
		"PEXPIRE": {3, "", (*model).expire},

		"GET":      {2, "string", func(_ *model, v *value, _ args) any { return first(v) }},
		"GETRANGE": {4, "string", func(_ *model, v *value, a args) any { s := v.string(); return s[:min(len(s), int(integer(a[1]))+1)] }},
		"SET":      {-3, "string", (*model).set},
		"INCRBY": {3, "string", func(_ *model, v *value, a args) any {
			n := integer(cmp.Or(v.string(), "0")) + integer(a[0])
			v.items = []item{{name: strconv.FormatInt(n, 10)}}
			return n
		}},

		"HGET": {3, "hash", func(_ *model, v *value, a args) any { return v.field(a[0])[0] }}, "HMGET": {-3, "hash", field},
		"HGETALL": {2, "hash", all}, "HSCAN": {-3, "hash", func(m *model, v *value, a args) any { return []any{"0", all(m, v, a)} }},
		"HEXISTS": {3, "hash", func(_ *model, v *value, a args) any { return int64(min(v.at(a[0]), 0) + 1) }},
		"HKEYS":   {2, "hash", func(_ *model, v *value, _ args) any { return listOf(v.items, item.alone) }},
		"HLEN":    {2, "hash", size}, "HDEL": {-3, "hash", remove}, "HSET": {-4, "hash", (*model).hset},

		"LLEN": {2, "list", size},
		"LPOS": {3, "list", func(_ *model, v *value, a args) any {
			if i := v.at(a[0]); i >= 0 {
				return int64(i)
			}
			return nil
		}},
		"RPUSH": {-3, "list", func(_ *model, v *value, a args) any {
			for _, name := range a {
				v.items = append(v.items, item{name: name})
			}
			return int64(len(v.items))
		}},
		"LPOP": {2, "list", func(_ *model, v *value, _ args) any {
			e := first(v)
			v.items = v.items[min(1, len(v.items)):]
			return e
		}},
		"LINDEX": {3, "list", func(_ *model, v *value, a args) any { return first(&value{items: span(v.items, a[0], a[0])}) }},
		"LRANGE": {4, "list", func(_ *model, v *value, a args) any { return listOf(span(v.items, a[0], a[1]), item.alone) }},
		"LREM": {4, "list", func(_ *model, v *value, a args) any {
			return v.remove(integer(a[0]), func(i item) bool { return i.name == a[1] })
		}},

		"ZADD": {-4, "zset", (*model).zadd}, "ZCARD": {2, "zset", size}, "ZREM": {-3, "zset", remove}, "ZMSCORE": {-3, "zset", score},
		"ZSCORE":           {3, "zset", func(_ *model, v *value, a args) any { return v.score(a[0])[0] }},
		"ZRANGE":           {-4, "zset", func(_ *model, v *value, a args) any { return ranged(span(v.items, a[0], a[1]), a[2:]) }},
		"ZRANGEBYSCORE":    {-4, "zset", func(_ *model, v *value, a args) any { return ranged(filter(v.items, within(a)), a[2:]) }},
		"ZCOUNT":           {4, "zset", func(_ *model, v *value, a args) any { return int64(len(filter(v.items, within(a)))) }},
		"ZREMRANGEBYSCORE": {4, "zset", func(_ *model, v *value, a args) any { return v.remove(0, within(a)) }},
	}
}

func listOf[T any](all []T, each func(T) []any) []any {
	l := make([]any, 0, len(all))
	for _, one := range all {
		l = append(l, each(one)...)
	}
	return l
}

func (i item) alone() []any  { return []any{i.name} }
func (i item) pair() []any   { return []any{i.name, i.text} }
func (i item) scored() []any { return []any{i.name, number(i.score)} }

func integer(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		refuse("ERR value is not an integer or out of range")
	}
	return n
}

func first(v *value) any {
	if len(v.items) == 0 {
		return nil
	}
	return v.items[0].name
}

func (v *value) string() string { s, _ := first(v).(string); return s }

func (v *value) at(name string) int {
	return slices.IndexFunc(v.items, func(i item) bool { return i.name == name })
}

func (v *value) field(name string) []any {
	if i := v.at(name); i >= 0 {
		return []any{v.items[i].text}
	}
	return []any{nil}
}

func (v *value) score(name string) []any {
	if i := v.at(name); i >= 0 {
		return []any{number(v.items[i].score)}
	}
	return []any{nil}
}

// remove removes the first items, or with 0 all, and returns how many there were.
func (v *value) remove(most int64, which func(item) bool) any {
	n := int64(0)
	v.items = slices.DeleteFunc(v.items, func(i item) bool {
		if !which(i) || most > 0 && n == most {
			return false
		}
		n++
		return true
	})
	return n
}

// scan returns all keys of a type in one page. The pattern is a prefix with a star.
func (m *model) scan(_ *value, a []string) any {
	keys := []any{}
	for key := range m.keys {
		if v := m.get(key); v != nil && v.kind == a[6] && strings.HasPrefix(key, strings.TrimSuffix(a[2], "*")) {
			keys = append(keys, key)
		}
	}
	return []any{"0", keys}
}

// count calls fn for each of some keys that exist, and returns how many they were.
func (m *model) count(keys []string, fn func(key string)) (n int64) {
	for _, key := range keys {
		if m.get(key) != nil {
			n++
			fn(key)
		}
	}
	return n
}

func (m *model) left(key string) int64 {
	switch v := m.get(key); {
	case v == nil:
		return -2
	case v.ends == 0:
		return -1
	default:
		return v.ends - m.now.UnixMilli()
	}
}

func (m *model) expire(_ *value, a []string) any {
	ms := integer(a[1])
	n := m.count(a[:1], func(key string) { m.keys[key].ends = m.now.UnixMilli() + ms })
	if ms <= 0 {
		delete(m.keys, a[0])
	}
	return n
}

func (m *model) set(v *value, a []string) any {
	var reply any = status("OK")
	ends := int64(0)
	for i := 1; i < len(a); i++ {
		switch a[i] {
		case "GET":
			reply = first(v)
		case "KEEPTTL":
			ends = v.ends
		case "PX", "PXAT":
			i++
			if ends = integer(a[i]); ends <= 0 {
				refuse("ERR invalid expire time in 'set' command")
			}
			if a[i-1] == "PX" {
				ends += m.now.UnixMilli()
			}
		default:
			refuse("ERR syntax error")
		}
	}
	v.items, v.ends = []item{{name: a[0]}}, ends
	return reply
}

func (m *model) hset(v *value, a []string) any {
	if len(a)%2 != 0 {
		refuse("ERR wrong number of arguments for 'hset' command")
	}
	n := len(v.items)
	for pair := range slices.Chunk(a, 2) {
		if at := v.at(pair[0]); at >= 0 {
			v.items[at].text = pair[1]
		} else {
			v.items = append(v.items, item{name: pair[0], text: pair[1]})
		}
	}
	return int64(len(v.items) - n)
}

func (m *model) zadd(v *value, a []string) any {
	only, greater := a[0] == "XX", a[0] == "GT"
	if only || greater {
		a = a[1:]
	}
	if len(a)%2 != 0 {
		refuse("ERR syntax error")
	}
	n, items := len(v.items), slices.Clone(v.items)
	for pair := range slices.Chunk(a, 2) {
		score, err := strconv.ParseFloat(pair[0], 64)
		if err != nil {
			refuse("ERR value is not a valid float")
		}
		at := slices.IndexFunc(items, func(i item) bool { return i.name == pair[1] })
		if at < 0 && !only {
			items = append(items, item{name: pair[1], score: score})
		} else if at >= 0 && (!greater || score > items[at].score) {
			items[at].score = score
		}
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.name, b.name)) })
	v.items = items
	return int64(len(v.items) - n)
}

// span returns the items from one index to another. Negative ones count from the end.
func span(items []item, from, to string) []item {
	f, t := int(integer(from)), int(integer(to))
	if f < 0 {
		f += len(items)
	}
	if t < 0 {
		t += len(items)
	}
	f, t = max(f, 0), min(t+1, len(items))
	if f >= t {
		return nil
	}
	return items[f:t]
}

// within selects by the scores of two bounds.
func within(a []string) func(item) bool {
	low, high := bound(a[0], math.Inf(1)), bound(a[1], math.Inf(-1))
	return func(i item) bool { return i.score >= low && i.score <= high }
}

// bound is an end of a range of scores: for an exclusive one the next number inside.
func bound(text string, inside float64) float64 {
	text, exclusive := strings.CutPrefix(text, "(")
	score, err := strconv.ParseFloat(text, 64)
	if err != nil {
		refuse("ERR min or max is not a float")
	}
	if exclusive {
		score = math.Nextafter(score, inside)
	}
	return score
}

func filter(items []item, in func(item) bool) (found []item) {
	for _, i := range items {
		if in(i) {
			found = append(found, i)
		}
	}
	return found
}

// ranged is how members are returned, with the options WITHSCORES and LIMIT.
func ranged(items []item, options []string) any {
	each := item.alone
	for i := 0; i < len(options); i++ {
		switch options[i] {
		case "WITHSCORES":
			each = item.scored
		case "LIMIT":
			items = items[min(int(integer(options[i+1])), len(items)):]
			items = items[:min(int(integer(options[i+2])), len(items))]
			i += 2
		default:
			refuse("ERR syntax error")
		}
	}
	return listOf(items, each)
}
