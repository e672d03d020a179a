package simtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/sim"
	"github.com/holdfast-go/holdfast/redishold"
)

// TestModel runs scripts on a model and on a real server that begin with the same keys at
// the same time: those of a few simulations, and one for each command with random
// arguments. Replies and keys must be the same then.
func TestModel(t *testing.T) {
	at := redistest.Start(t).Addr()
	client := redis.NewClient(&redis.Options{Addr: at})
	defer client.Close()
	r := &real{client: client, model: newLua(&compiler{}, nil)}
	cases := append(simulatedCases(t), commandCases()...)
	ran := map[string]int{}
	for _, c := range cases {
		r.compare(t, c)
		ran[c.call.Script.Name()]++
	}
	t.Log(len(cases), ran)
}

// scriptCase is a script that is about to run.
type scriptCase struct {
	before *model
	call   redishold.Call
}

// simulatedCases returns some for each script that a few simulations run.
func simulatedCases(t *testing.T) (cases []scriptCase) {
	t.Setenv("HOLDFAST_SIM_SEEDS", "6")
	t.Setenv("HOLDFAST_SIM_FROM", "1")
	var mu sync.Mutex
	met, opened, scripts := map[string]int{}, 0, &compiler{}
	sim.Seeds(t, func(time.Duration) sim.Store {
		mu.Lock()
		defer mu.Unlock()
		opened++
		s := newServer(scripts, []redishold.Layout{redishold.Redisson, redishold.Redisson, redishold.Plain}[opened%3])
		s.record = func(call redishold.Call) {
			mu.Lock()
			defer mu.Unlock()
			met[call.Script.Name()]++
			if n := met[call.Script.Name()]; (n < 15 || n%50 == 0) && call.Script.Name() != "list_scan" { // its order is not defined
				cases = append(cases, scriptCase{s.model.clone(), call})
			}
		}
		return s
	})
	return cases
}

// commandCases returns some for each command, with keys that others have left.
func commandCases() (cases []scriptCase) {
	random := rand.New(rand.NewPCG(1, 2))
	script := redishold.NewScript("command", "return redis.pcall(unpack(ARGV))")
	words := map[string][]string{
		"k": {"a", "b", "c", "d"}, "f": {"x", "y", "z"}, "i": {"0", "1", "-1", "-2", "5", "bad"}, "p": {"90000", "60000", "0", "-5", "bad"},
		"s": {"1", "2", "2.5", "-inf", "12345678901234", "bad"}, "r": {"-inf", "+inf", "(2", "2", "1", "(2.5", "bad"}, "o": {"", "", "XX", "GT"},
		"w": {"7", "-7", "text"}, "e": {"", "", "GET", "KEEPTTL", "PX 70000", "PXAT 1", "bad"}, "l": {"", "WITHSCORES", "LIMIT 0 1", "WITHSCORES LIMIT 1 2"},
	}
	forms := strings.Split("DEL k k,EXISTS k k k,GET k,GETRANGE k 0 5,GETRANGE k 0 0,HDEL k f f,HEXISTS k f,HGET k f,HGETALL k,HKEYS k,HLEN k,HMGET k f f,HSCAN k 0,"+
		"HSET k f w f w,HSET k f w,HSET k f w bad,INCRBY k i,LINDEX k 0,LINDEX k -1,LINDEX k 5,LLEN k,LPOP k,LPOS k f,LRANGE k i i,LREM k 0 f,LREM k 1 f,PEXPIRE k p,PTTL k,"+
		"PUBLISH k w,PUBSUB NUMSUB k k,RPUSH k f f,SET k w e,SET k w GET PX 90000,SET k w GET KEEPTTL,TIME,ZADD k o s f s f,ZADD k s f,ZADD k s f bad,ZCARD k,ZCOUNT k r r,"+
		"ZMSCORE k f f,ZRANGE k i i,ZRANGE k i i WITHSCORES,ZRANGEBYSCORE k r r l,ZREM k f f,ZREMRANGEBYSCORE k r r,ZSCORE k f,GET,TIME k,BAD k", ",")
	m := newModel()
	for range 2000 {
		var args []string
		for _, word := range strings.Fields(forms[random.IntN(len(forms))]) {
			if some, ok := words[word]; ok {
				word = some[random.IntN(len(some))]
			}
			args = append(args, strings.Fields(word)...)
		}
		m.now = time.UnixMilli(1e12)
		cases = append(cases, scriptCase{m.clone(), redishold.Call{Script: script, Args: args}})
		m.run(args)
	}
	return cases
}

func (m *model) clone() *model {
	c := newModel()
	c.now = m.now
	for key, v := range m.keys {
		if m.get(key) != nil {
			c.keys[key] = &value{v.kind, slices.Clone(v.items), v.ends}
		}
	}
	return c
}

// real is a server beside the model.
type real struct {
	client *redis.Client
	model  *luaState
}

// dump is a script that returns all keys.
const dump = `local found = {}
local read = {string = {'GET'}, hash = {'HGETALL'}, list = {'LRANGE', '0', '-1'}, zset = {'ZRANGE', '0', '-1', 'WITHSCORES'}}
for _, kind in ipairs({'string', 'hash', 'list', 'zset'}) do
  local keys = redis.call('SCAN', '0', 'MATCH', '*', 'COUNT', '10000', 'TYPE', kind)[2]
  table.sort(keys)
  for _, key in ipairs(keys) do
    local command = read[kind]
    local items = redis.call(command[1], key, unpack(command, 2))
    if kind == 'hash' then -- of long texts it has no order
      for i = 1, #items / 2 do
        items[i] = items[i] .. '=' .. table.remove(items, i + 1)
      end
      table.sort(items)
    end
    found[#found + 1] = {key, redis.call('PTTL', key), items}
  end
end
return found`

// compare fails the test if a script has another effect on the server. A machine that is
// busy gets three attempts: the time of the server goes on.
func (r *real) compare(t *testing.T, c scriptCase) {
	t.Helper()
	m := c.before.clone()
	for _, v := range m.keys {
		if v.ends != 0 && v.ends-m.now.UnixMilli() < 500 {
			return // it might end on the server while the script runs
		}
	}
	r.model.command = m.run
	modelled := []any{outcome(r.model.run(c.call.Script, c.call.Keys, c.call.Args)), outcome(r.model.run(redishold.NewScript("dump", dump), nil, nil))}
	var got []any
	for range 3 {
		began := time.Now()
		got = r.run(t, c)
		took := time.Since(began).Milliseconds() + 1
		if slices.Contains(c.call.Args, "bad") && isError(got[0]) && isError(modelled[0]) {
			got[0], modelled[0] = nil, nil // which of several errors comes first
		}
		if same(got, modelled, took) {
			return
		}
	}
	g, wanted := lines(got), lines(modelled)
	only := func(some, others []string) []string {
		return slices.DeleteFunc(slices.Clone(some), func(s string) bool { return slices.Contains(others, s) })
	}
	t.Fatalf("%s %q %q:\n%q from the server\n%q from the model, which began with\n%q", c.call.Script.Name(), c.call.Keys, c.call.Args,
		only(g, wanted), only(wanted, g), texts(c.before))
}

// run returns the reply of the server, and its keys then.
func (r *real) run(t *testing.T, c scriptCase) []any {
	ctx, p := context.Background(), r.client.Pipeline()
	p.FlushAll(ctx)
	for key, v := range c.before.keys {
		for _, i := range v.items {
			switch v.kind {
			case "string":
				p.Set(ctx, key, i.name, 0)
			case "hash":
				p.HSet(ctx, key, i.name, i.text)
			case "list":
				p.RPush(ctx, key, i.name)
			default:
				p.ZAdd(ctx, key, redis.Z{Score: i.score, Member: i.name})
			}
		}
		if v.ends != 0 {
			p.PExpire(ctx, key, time.Duration(max(v.ends-c.before.now.UnixMilli(), 1))*time.Millisecond)
		}
	}
	us := c.before.now.UnixMicro()
	clock := fmt.Sprintf("local real, redis = redis, {acl_check_cmd = redis.acl_check_cmd}\n"+
		"for name, run in pairs({call = real.call, pcall = real.pcall}) do redis[name] = function(...)\n"+
		"if select('#', ...) == 1 and (...) == 'TIME' then return {'%d', '%d'} end return run(...) end end\n", us/1e6, us%1e6)
	reply := p.Eval(ctx, clock+c.call.Script.Source(), c.call.Keys, listOf(c.call.Args, func(a string) []any { return []any{a} })...)
	keys := p.Eval(ctx, dump, nil)
	_, _ = p.Exec(ctx) // the replies have the errors
	if keys.Err() != nil {
		t.Fatal(keys.Err())
	}
	all := []any{reply.Val(), keys.Val()}
	if err := reply.Err(); err != nil && !errors.Is(err, redis.Nil) {
		all[0] = err
	}
	return all
}

// texts returns the keys of a model for people.
func texts(m *model) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(m.keys)) {
		all = append(all, fmt.Sprintf("%s: %v", key, *m.keys[key]))
	}
	return all
}

// lines returns an outcome for people: the reply, and the keys.
func lines(outcome []any) []string {
	all := []string{fmt.Sprint("reply ", outcome[0])}
	for _, key := range outcome[1].([]any) {
		all = append(all, fmt.Sprint(key))
	}
	return all
}

func outcome(r redishold.Result) any {
	if r.Err != nil {
		return r.Err
	}
	return r.Value
}

func isError(v any) bool { _, ok := v.(error); return ok }

// same compares what a server answered with what the model did. A TTL may be shorter by
// so many ms: what the script took.
func same(got, modelled any, shorter int64) bool {
	switch m := modelled.(type) {
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(g, m, func(g, m any) bool { return same(g, m, shorter) })
	case int64:
		g, ok := got.(int64)
		return ok && (g == m || m > 20 && g <= m && m-g <= shorter)
	case string: // with a time in it, as the score of a place in a queue
		g, _ := got.(string)
		n, err := strconv.ParseInt(g, 10, 64)
		o, err2 := strconv.ParseInt(m, 10, 64)
		return g == m || err == nil && err2 == nil && same(n, o, shorter)
	case error:
		g, ok := got.(error)
		code, _, _ := strings.Cut(m.Error(), " ")
		return ok && (code == "ERR" || strings.Contains(g.Error(), code))
	}
	return got == modelled
}
