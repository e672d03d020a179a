package webdemo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/standin"
)

// Serve shows the page until ctx ends, and returns nil then. It leaves no process
// behind, and no lock held. It returns an error if it cannot listen or a store
// cannot be reached.
func Serve(ctx context.Context, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.lease == 0 {
		o.lease = defaultLease
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer listener.Close()
	s, err := openSite(ctx, o, listener.Addr())
	if err != nil {
		return err
	}
	defer s.close()
	s.introduce(o.Out)
	return s.serve(ctx, listener)
}

// site is the page and what it shows.
type site struct {
	self      string // host:port
	loopback  bool
	lease     time.Duration
	places    places
	main      *store // of what only looks, and of the shop
	nodes     []*store
	console   *admin.Console
	board     *board
	instances [2]*instance
	arena     *arena
	mall      *mall
	front     front

	viewers atomic.Int64
	pokes   chan struct{} // capacity 1
	done    chan struct{} // closed when the site ends
	end     func()        // ends it
	life    context.Context
	all     sync.WaitGroup // what the site has started
}

func openSite(ctx context.Context, o Options, addr net.Addr) (s *site, err error) {
	s = &site{
		self: addr.String(), lease: o.lease, board: newBoard(),
		pokes: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if tcp, ok := addr.(*net.TCPAddr); ok {
		s.loopback = tcp.IP.IsLoopback()
	}
	if s.places, err = find(o.Access); err != nil {
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		s.disconnect()
		return nil, err
	}
	s.console = admin.New(s.main.Backend)
	s.mall = newMall(s.main, s.board)
	s.front = newFront()
	var stop context.CancelFunc
	s.life, stop = context.WithCancel(context.WithoutCancel(ctx))
	s.end = sync.OnceFunc(func() {
		close(s.done)
		stop()
	})
	for i := range s.instances {
		s.instances[i] = newInstance(i+1, s.board, s.poke, func(ctx context.Context) (*process, error) {
			note := fmt.Sprintf("instance %d of %s", i+1, s.self)
			return start(ctx, o.Worker, o.Env, task{Access: s.places.lock.access, Note: note, Lease: o.lease})
		})
		s.all.Go(func() { s.instances[i].live(s.life) })
	}
	s.all.Go(func() { s.watch(s.life) })
	return s, nil
}

// connect opens the stores.
func (s *site) connect(ctx context.Context) (err error) {
	if s.main, err = openStore(ctx, s.places.lock.access); err != nil {
		return err
	}
	var known []bool
	var states []nodeState
	for i, p := range s.places.race {
		node, err := openStore(ctx, p.access)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		s.nodes = append(s.nodes, node)
		id, _, err := node.Incarnation(ctx)
		known = append(known, err == nil && id != "")
		states = append(states, nodeState{Number: i + 1, Name: p.Name, StandIn: p.StandIn})
	}
	s.board.update(func(b *state) { b.Nodes = states })
	s.arena, err = newArena(s.nodes, known, s.board)
	return err
}

func (s *site) disconnect() {
	for _, n := range s.nodes {
		n.close()
	}
	if s.main != nil {
		s.main.close()
	}
	s.places.close()
}

// close ends everything that the site has started: locks are released.
func (s *site) close() {
	s.end()
	s.all.Wait()
	for _, n := range s.nodes {
		n.cable.set(false)
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	s.mall.drain(ctx)
	_ = s.arena.drain(ctx) // what is left ends with its lease
	s.disconnect()
}

// serve answers requests until ctx ends.
func (s *site) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // browsers that hang up are no news
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	var err error
	select {
	case err = <-failed:
		s.end()
	case <-ctx.Done():
		s.end() // waiters get an answer, and streams end
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye+time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			server.Close()
		}
		err = <-failed
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// introduce says where the page is, and how to look at it otherwise.
func (s *site) introduce(out io.Writer) {
	at := "http://" + s.self
	fmt.Fprintf(out, "Holdfast demo: open %s in a browser. Ctrl-C ends it.\n\n", at)
	for i, p := range s.places.race {
		what := "Redis"
		if p.StandIn {
			what = standin.Banner
		}
		if i == 0 && p.Name != s.places.lock.Name {
			fmt.Fprintf(out, "Locks are kept in %s; for the race of several Redis there are:\n", s.places.lock.Name)
		}
		fmt.Fprintf(out, "  %s: %s\n", what, p.Name)
	}
	fmt.Fprintf(out, "\nPlain clients work too:\n")
	fmt.Fprintf(out, "  curl -X POST '%s/lock1?work=2s' & curl -X POST '%s/lock2?work=2s'\n", at, at)
	fmt.Fprintf(out, "\nA second server that shares the locks:\n  %s\n", s.second())
	if !s.loopback {
		fmt.Fprintf(out, "\nEverybody who reaches %s can use this page. It is meant for your own machine.\n", s.self)
	}
}

// second is the command line of another server that shares the locks.
func (s *site) second() string {
	return "holdfast demo --serve --listen 127.0.0.1:7072" + s.places.flags()
}
