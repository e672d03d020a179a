package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/promhold"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

const (
	stopLimit  = 5 * time.Second  // for requests that still run after a signal
	writeLimit = 30 * time.Second // for an answer; a stream sets a new limit for each piece

	// mostRequests is how many requests a connection of HTTP/2 may have at once. Each tab of a
	// browser that shows a page has one.
	mostRequests = 32
)

// Options say what to serve, at which addresses, and to which users.
type Options struct {
	Listen        string
	MetricsListen string // a second address, for /metrics without authentication; "" for none
	BasePath      string
	TLSCert       string
	TLSKey        string
	Private       bool // Listen can be reached from this machine only

	BasicFile string
	TokenFile string
	Header    string
	Trusted   []string
	Hosts     []string

	AllowUnlock bool
	Operators   []string
	Names       string // show only names that begin with this text; "" for all
	Counters    bool
	OnlyViewed  bool // the store is polled only while a page is open
}

// Store is the store that the pages show.
type Store struct {
	Console *admin.Console
	Where   string                                        // its URL without passwords
	Forced  func(name string, h admin.Holder, why string) // records a forced unlock; may be nil
	Examine func(context.Context) (*doctor.Report, error)
	Report  *output.Reporter
}

// Serve answers browsers until ctx ends.
func Serve(ctx context.Context, g *Authenticator, s Store) error {
	dashboard := dash.Handler(s.Console, &dash.Options{
		BasePath: g.BasePath, Store: s.Where, Authorize: g.role, User: requester, AllowUnlock: g.AllowUnlock, Forced: s.Forced,
		Findings: s.findings, NamePrefix: g.Names, Counters: g.Counters, Logger: g.log,
	})
	numbers := metricsHandler(dashboard)
	pages := http.NewServeMux()
	pages.Handle("/", g.guard(dashboard))
	pages.Handle("/metrics", g.guard(numbers))
	pages.HandleFunc("/healthz", healthy)

	running, stop := context.WithCancel(ctx)
	defer stop()
	all := &servers{most: g.mostConns, failed: make(chan error, 2), stop: stop}
	defer all.shutdown()
	defer dashboard.Close() // before shutdown, because it ends the streams, which never end by themselves
	address, err := all.start(running, g.Listen, pages, g.TLSCert, g.TLSKey)
	if err != nil {
		return err
	}
	g.announce(address, s)
	if g.MetricsListen != "" {
		apart := http.NewServeMux()
		apart.Handle("/metrics", numbers)
		apart.HandleFunc("/healthz", healthy)
		if address, err = all.start(running, g.MetricsListen, apart, "", ""); err != nil {
			return err
		}
		s.Report.Warn("metrics at http://%s/metrics", address)
	}
	if !g.OnlyViewed {
		_ = dashboard.Watch(running)
	}
	<-running.Done()
	select {
	case err := <-all.failed:
		return err
	default:
		return nil
	}
}

// announce reports the address of the pages.
func (g *Authenticator) announce(address net.Addr, s Store) {
	scheme := "http"
	if g.TLSCert != "" {
		scheme = "https"
	}
	what := "read-only"
	if g.AllowUnlock {
		what = "operators may end holds"
	}
	if g.Open() && !g.Private {
		what += ", without authentication"
	}
	path := strings.Trim(g.BasePath, "/")
	if path != "" {
		path += "/"
	}
	s.Report.Line(slog.LevelInfo, fmt.Sprintf("the locks of %s are at %s://%s/%s (%s)", s.Where, scheme, address, path, what))
}

// metricsHandler returns the handler of /metrics: numbers of this process, and of the
// dashboard's polls.
func metricsHandler(d *dash.Dashboard) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(promhold.New(nil), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge := func(name, help string, value func(dash.Stats) float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "holdfast_serve_" + name, Help: help}, func() float64 {
			return value(d.Stats())
		}))
	}
	gauge("store_up", "1 if the store answered the last request, otherwise 0.", func(s dash.Stats) float64 {
		if s.Answered.IsZero() || !s.Failing.IsZero() {
			return 0
		}
		return 1
	})
	gauge("store_answer_seconds", "Median time until the store answers.", func(s dash.Stats) float64 { return s.Answer.Seconds() })
	gauge("names", "Names in use, as the dashboard last read them.", func(s dash.Stats) float64 { return float64(s.Names) })
	gauge("held", "Holds of all programs, as the dashboard last read them.", func(s dash.Stats) float64 { return float64(s.Held) })
	gauge("waiting", "Waiters of all programs, as the dashboard last read them.", func(s dash.Stats) float64 { return float64(s.Waiting) })
	gauge("viewers", "Browsers that show the dashboard now.", func(s dash.Stats) float64 { return float64(s.Viewers) })
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// healthy answers "ok" and closes the connection, as guard does. The answer says nothing
// about the store: a restart of this process would not repair the store.
func healthy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Connection", "close")
	_, _ = io.WriteString(w, "ok\n")
}

// servers are the servers of all addresses.
type servers struct {
	most    func(peer netip.Addr) int // the most connections of an address
	failed  chan error                // has room for the error of each server, so no server blocks
	stop    func()                    // called when a server has failed
	list    []*http.Server
	running sync.WaitGroup
}

// start starts a server for `handler`, with TLS unless `cert` is "". It returns the address at
// which the server listens.
func (s *servers) start(ctx context.Context, address string, handler http.Handler, cert, key string) (net.Addr, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, cannotListen(address, err)
	}
	server := newServer(handler)
	s.list = append(s.list, server)
	s.running.Go(func() {
		defer listener.Close()
		fair := newFairListener(listener, s.most)
		if cert != "" {
			err = server.ServeTLS(fair, cert, key)
		} else {
			err = server.Serve(fair)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			s.failed <- output.UsageError("serve on %s: %w", address, err)
			s.stop()
		}
	})
	return listener.Addr(), nil
}

// shutdown ends the servers. Requests that still run may go on for the time stopLimit.
func (s *servers) shutdown() {
	limited, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	for _, server := range s.list {
		if server.Shutdown(limited) != nil {
			_ = server.Close()
		}
	}
	s.running.Wait()
}

// newServer returns a server for handler. Its timeouts end the connection of a client that
// does not read its answer. Without them, such a client could keep the connection forever.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: writeLimit,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: mostRequests}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
}

// cannotListen returns err, an error of Listen, with an exit status. An invalid address is an
// error of the command line. If the system refuses the address, for example because another
// program listens on it, the status is ExitFailure, because a later attempt may succeed.
func cannotListen(address string, err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return &output.ExitError{Code: output.ExitFailure, Err: fmt.Errorf("listen on %s: %w", address, err)}
	}
	return output.UsageError("listen on %s: %w", address, err)
}

// findings returns the findings about the store. If the store cannot be examined, the error
// is the only finding.
func (s Store) findings(ctx context.Context) []dash.Finding {
	report, err := s.Examine(ctx)
	if err != nil {
		return []dash.Finding{{Severity: dash.Danger, Title: "examination", Text: err.Error()}}
	}
	var list []dash.Finding
	for _, f := range report.Findings {
		title := f.ID
		if len(f.Servers) > 0 && len(report.Servers) > 1 {
			title += " (" + strings.Join(f.Servers, ", ") + ")"
		}
		text := f.Saw
		if f.Why != "" {
			text += ". " + f.Why
		}
		list = append(list, dash.Finding{Severity: dash.Severity(f.Severity), Title: title, Text: text, Remedy: f.Remedy})
	}
	return list
}
