package peer

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// The peers of this file send the scripts of Holdfast with the keys and arguments of
// Holdfast, and nothing of Holdfast waits for the answer. Beside the raw peers they show what
// the scripts cost, beside Holdfast what its client part costs.

func scriptsRueidis() Spec {
	return replaying("raw-scripts-rueidis", "rueidis", func(t Target) (sender, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{t.Redis}, PipelineMultiplex: -1, DisableCache: true,
		})
		return &rueidisSender{client: client}, err
	})
}

func scriptsGoRedis() Spec {
	return replaying("raw-scripts-goredis", "go-redis", func(t Target) (sender, error) {
		return &goRedisSender{client: goRedis(t)}, nil
	})
}

func replaying(name, client string, dial func(Target) (sender, error)) Spec {
	return Spec{
		Name: name, Client: client, Role: Limit, Full: true, Works: own(),
		Open: func(ctx context.Context, t Target) (Peer, error) {
			conn, err := rueidisconn.Open(ctx, "redis://"+t.Redis, nil)
			if err != nil {
				return nil, err
			}
			send, err := dial(t)
			if err != nil {
				conn.Close()
				return nil, err
			}
			record := &recorder{Conn: conn, calls: map[string]redishold.Call{}}
			return &replay{
				source: newHoldfast(record, t, holdfast.Options{}, conn.Close), record: record, send: send, id: rand.Text(),
			}, nil
		},
	}
}

// sender runs a script that the server knows, and returns its integer reply. Another reply is
// an error.
type sender interface {
	run(ctx context.Context, script *redishold.Script, keys, args []string) (int64, error)
	close()
}

// recorder keeps the newest call of each script for each lock.
type recorder struct {
	redishold.Conn

	mu    sync.Mutex
	calls map[string]redishold.Call // by script and lock
}

// Do keeps copies: the caller reuses the slices of calls.
func (r *recorder) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	r.mu.Lock()
	for _, c := range calls {
		c.Keys, c.Args = slices.Clone(c.Keys), slices.Clone(c.Args)
		r.calls[c.Script.Name()+" "+c.Keys[0]] = c
	}
	r.mu.Unlock()
	return r.Conn.Do(ctx, calls...)
}

func (r *recorder) call(script, key string) (redishold.Call, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.calls[script+" "+key]
	if !ok {
		return c, fmt.Errorf("holdfast locked %s without the script %s", key, script)
	}
	return c, nil
}

// replay sends the calls of source again, with other owners.
type replay struct {
	source *holdfastPeer
	record *recorder
	send   sender
	id     string
	number atomic.Int64
	known  sync.Map // the recorded pair of each name
}

// recordedPair is what one Lock and Unlock of a name sent.
type recordedPair struct {
	acquire, release redishold.Call
	owner            string
}

// Lock has Holdfast lock a name once, before the first acquisition of that name.
func (p *replay) Lock(ctx context.Context, key string) (Held, error) {
	known, ok := p.known.Load(key)
	if !ok {
		pair, err := p.learn(ctx, key)
		if err != nil {
			return nil, err
		}
		known, _ = p.known.LoadOrStore(key, pair)
	}
	h := &replayHeld{p, known.(*recordedPair), p.id + ":" + strconv.FormatInt(p.number.Add(1), 10)} //nolint:forcetypeassert // Store has no other type
	if _, err := p.run(ctx, &h.pair.acquire, h); err != nil {
		return nil, err
	}
	return h, nil
}

func (p *replay) learn(ctx context.Context, key string) (*recordedPair, error) {
	held, err := p.source.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := held.Unlock(); err != nil {
		return nil, err
	}
	pair := &recordedPair{}
	if pair.acquire, err = p.record.call("acquire", key); err != nil {
		return nil, err
	}
	pair.release, err = p.record.call("release", key)
	pair.owner = pair.acquire.Args[0]
	return pair, err
}

// run sends a recorded call with the owner of h.
func (p *replay) run(ctx context.Context, c *redishold.Call, h *replayHeld) (int64, error) {
	return p.send.run(ctx, c.Script, h.renamed(c.Keys), h.renamed(c.Args))
}

func (p *replay) Close() {
	p.send.close()
	p.source.Close()
}

type replayHeld struct {
	peer  *replay
	pair  *recordedPair
	owner string
}

// renamed returns texts with the owner of h in place of the recorded one, which a text has at
// its end if at all.
func (h *replayHeld) renamed(texts []string) []string {
	texts = slices.Clone(texts)
	for i, text := range texts {
		if before, found := strings.CutSuffix(text, h.pair.owner); found {
			texts[i] = before + h.owner
		}
	}
	return texts
}

// Unlock reads the reply of release: one more than the receivers of the message.
func (h *replayHeld) Unlock() error {
	n, err := h.peer.run(context.Background(), &h.pair.release, h)
	if err == nil && n < 1 {
		return errNotHeld
	}
	return err
}

type rueidisSender struct {
	client rueidis.Client
	lua    sync.Map // by script
}

func (s *rueidisSender) run(ctx context.Context, script *redishold.Script, keys, args []string) (int64, error) {
	lua, ok := s.lua.Load(script)
	if !ok {
		lua, _ = s.lua.LoadOrStore(script, rueidis.NewLuaScript(script.Source()))
	}
	return lua.(*rueidis.Lua).Exec(ctx, s.client, keys, args).AsInt64() //nolint:forcetypeassert // Store has no other type
}

func (s *rueidisSender) close() { s.client.Close() }

type goRedisSender struct{ client *redis.Client }

func (s *goRedisSender) run(ctx context.Context, script *redishold.Script, keys, args []string) (int64, error) {
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg
	}
	return s.client.EvalSha(ctx, script.SHA(), keys, values...).Int64()
}

func (s *goRedisSender) close() { _ = s.client.Close() }
