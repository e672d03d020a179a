package simtest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/sim"
	"github.com/holdfast-go/holdfast/redishold"
)

var errNoScript = &redishold.ReplyError{Text: "NOSCRIPT No matching script."}

// server is a Redis server that a simulation shares.
type server struct {
	options redishold.Options

	admin  *redishold.Backend
	record func(redishold.Call) // what is about to run; nil for nobody

	mu     sync.Mutex // one script at a time
	lua    *luaState
	model  *model
	known  map[string]bool // scripts, by their SHA
	subs   map[string][]*subscription
	starts int

	calls   chan redishold.Call
	results chan redishold.Result
	closed  bool
	began   time.Time
	rate    float64 // of its clock
}

func newServer(c *compiler, layout redishold.Layout) *server {
	s := &server{options: redishold.Options{Layout: layout, KeyPrefix: "{sim}:"}, began: time.Now(), calls: make(chan redishold.Call), results: make(chan redishold.Result)}
	s.start()
	s.lua = newLua(c, func(args []string) any { return s.model.run(args) })
	s.admin = redishold.New(&conn{server: s}, &s.options)
	go s.run()
	return s
}

// start starts it without its memory.
func (s *server) start() {
	s.model = newModel()
	s.model.send, s.model.hear = s.publish, func(channel string) int64 { return int64(len(s.subs[channel])) }
	s.known, s.subs = map[string]bool{}, map[string][]*subscription{}
	s.starts++
}

func (s *server) eval(call redishold.Call) redishold.Result {
	if !call.Source && !s.known[call.Script.SHA()] {
		return redishold.Result{Err: errNoScript}
	}
	s.known[call.Script.SHA()] = true
	s.tick()
	if s.record != nil {
		s.record(call)
	}
	if s.closed { // a process that crashed calls
		return s.lua.run(call.Script, call.Keys, call.Args)
	}
	s.calls <- call
	return <-s.results
}

// tick sets the clock of the server.
func (s *server) tick() {
	s.model.now = s.began.Add(time.Duration(float64(time.Since(s.began)) * s.rate))
}

// run runs scripts: a goroutine for each would have to enlarge its stack first.
func (s *server) run() {
	for call := range s.calls {
		s.results <- s.lua.run(call.Script, call.Keys, call.Args)
	}
}

// Close ends a goroutine of the server.
func (s *server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	close(s.calls)
}

func (s *server) publish(channel, text string) {
	for _, sub := range s.subs[channel] {
		sub.send(text)
	}
}

func (s *server) subscribe(sub *subscription) {
	s.subs[sub.channel] = append(s.subs[sub.channel], sub)
}

func (s *server) drop(sub *subscription) {
	sub.pending = nil
	s.subs[sub.channel] = slices.DeleteFunc(slices.Clone(s.subs[sub.channel]), func(o *subscription) bool { return o == sub })
}

func (s *server) Client(l *sim.Link) driver.Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rate == 0 || s.rate == 1 { // that of the first process whose clock differs
		s.rate = float64(time.Second) / float64(l.There(time.Second))
	}
	return &simBackend{sim.Collected{Link: l}, redishold.New(&conn{s, l}, &s.options)}
}

// simBackend is the store as one process uses it.
type simBackend struct {
	sim.Collected
	*redishold.Backend
}

// Remember leaves out the tokens: the clock of the next master has passed them.
func (s *server) Remember() (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	then := map[string]*value{}
	for key, v := range s.model.keys {
		then[key] = &value{v.kind, slices.Clone(v.items), v.ends}
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if v := s.model.keys["{sim}:holdfast:token"]; v != nil {
			then["{sim}:holdfast:token"] = v
		}
		s.model.keys = then
	}
}

func (s *server) Forget(func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.subs
	s.start()
	for _, subs := range before {
		for _, sub := range subs {
			sub.pending = nil
			go sub.restore()
		}
	}
}

func (s *server) Force(name string) bool { return sim.Force(s.admin, name) }

func (s *server) Holders(name string) (n int, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	key := s.options.KeyPrefix + name
	if !strings.HasPrefix(name, "s") {
		if s.model.get(key) != nil {
			n = 1
		}
		return n, true
	}
	if permits := s.model.get(key + ":timeout"); permits != nil { // docs/redis.md
		for _, p := range permits.items {
			if p.score > float64(s.model.now.UnixMilli()) {
				n++
			}
		}
	}
	return n, true
}

func (s *server) Left() (left []string) {
	left = sim.Left(s.admin)
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, v := range s.model.keys {
		counts := key == "{sim}:holdfast:token" || strings.HasPrefix(key, "{sim}:s") // docs/redis.md
		if v.ends == 0 && !counts {
			left = append(left, key+" has no TTL")
		}
	}
	return left
}
