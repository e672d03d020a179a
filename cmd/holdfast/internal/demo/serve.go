package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/dash"
)

// pageLease is the TTL of the locks of the page. It is short, so that a person need not wait
// long after a holder was killed.
const pageLease = 5 * time.Second

var errEnding = errors.New("the demo is being ended")

// PageOptions say what to serve, and where. Out and Worker must be set.
type PageOptions struct {
	// Access has the servers: none, one or an odd number of independent servers. The dashboard
	// shows the locks of the first one. Redlock uses all of them. If there are fewer than three,
	// stand-ins are started inside this process until there are three.
	Access []open.Access

	Listen string    // host:port; with port 0 the system chooses a port
	Out    io.Writer // gets the address

	Worker []string // as in Options
	Env    []string

	lease time.Duration // the TTL of the lock that the instances take; 0 for pageLease
}

// Check returns an error if the number of servers is not valid.
func (o *PageOptions) Check() error {
	if n := len(o.Access); n > 9 || n > 1 && n%2 == 0 {
		return fmt.Errorf("%d stores cannot be used: give one store, or an odd number up to 9 for Redlock", n)
	}
	return nil
}

// Serve serves the dashboard and the page of scenes until ctx ends, and returns nil then.
// It leaves no process behind, and no lock held. It returns an error if it cannot listen or
// a server cannot be reached.
func Serve(ctx context.Context, o PageOptions) error {
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

// site is the dashboard and the scenes.
type site struct {
	PageOptions
	Self      string // host:port of the page
	loopback  bool
	Servers   servers
	dashboard *dash.Dashboard
	Instances [2]*instance
	timeline  *timeline // what happens to the instances
	round     int       // the number of the last race of Redlock

	life context.Context // ends with the site; its cause is errEnding
	end  context.CancelCauseFunc
	all  sync.WaitGroup // the goroutines that the site has started

	busy    sync.Map // by name: the actions that run now, and may not run twice at a time
	results sync.Map // by name: the actions of the page, each with its last result, or with underWay
}

func openSite(ctx context.Context, o PageOptions, addr net.Addr) (*site, error) {
	all, err := openServers(ctx, o.Access)
	if err != nil {
		return nil, err
	}
	s := &site{PageOptions: o, Self: addr.String(), Servers: all, timeline: newTimeline()}
	if tcp, ok := addr.(*net.TCPAddr); ok {
		s.loopback = tcp.IP.IsLoopback()
	}
	s.dashboard = dash.Handler(admin.New(all[0].backend), &dash.Options{Store: all[0].Name, Link: dash.Link{Title: "Demo", Address: "demo"}})
	s.life, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	s.all.Go(func() { _ = s.dashboard.Watch(s.life) }) // so that the dashboard also polls while no browser is open
	s.all.Go(func() { s.poll(s.life) })
	for n := range s.Instances {
		s.Instances[n] = &instance{site: s, number: n + 1}
	}
	return s, nil
}

// close ends everything that the site has started.
func (s *site) close() {
	s.end(errEnding)
	s.all.Wait()
	s.dashboard.Close()
	s.Servers.close()
}

// serve answers requests until ctx ends.
func (s *site) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // drops messages about broken connections
		BaseContext: func(net.Listener) context.Context { return s.life },    // the end of s.life ends waiting requests
	}
	s.all.Go(func() {
		<-s.life.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(s.life), goodbye+time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			server.Close()
		}
	})
	stop := context.AfterFunc(ctx, func() { s.end(errEnding) })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// introduce says where the page is, and how to use it without a browser.
func (s *site) introduce(out io.Writer) {
	at, again := "http://"+s.Self, "holdfast demo --serve --listen 127.0.0.1:7072"
	fmt.Fprintf(out, "Holdfast demo: open %s/demo in a browser. Ctrl-C ends it.\n\n", at)
	for _, n := range s.Servers {
		fmt.Fprintf(out, "  Redis: %s\n", n)
		again += " --url " + n.Name
	}
	fmt.Fprintf(out, "\nPlain clients work too:\n")
	fmt.Fprintf(out, "  curl -X POST '%s/lock1?work=2s' & curl -X POST '%s/lock2?work=2s'\n", at, at)
	fmt.Fprintf(out, "\nTo start a second demo that shares the locks:\n  %s\n", again)
	if !s.loopback {
		fmt.Fprintf(out, "\nEverybody who reaches %s can use this page. It is meant for your own machine.\n", s.Self)
	}
}
