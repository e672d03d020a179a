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
	stopLimit  = 5 * time.Second  // for running requests after a signal
	writeLimit = 30 * time.Second // for an answer; a stream has one for each piece
)

// Options say what to serve, at which addresses, and to which users.
type Options struct {
	Listen        string
	MetricsListen string // another address for numbers, without authentication; "" for none
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
	Names       string // only names that begin with this
	Counters    bool
	OnlyViewed  bool // the store is polled only while a page is open
}

// Store is the store that the pages show.
type Store struct {
	Console *admin.Console
	Where   string                                        // its URL without passwords
	Forced  func(name string, h admin.Holder, why string) // records a forced unlock; may be nil
	Examine func(context.Context) (*doctor.Report, error)
	Log     *slog.Logger // for actions of users
	Report  *output.Reporter
}

// Serve answers browsers until ctx ends.
func Serve(ctx context.Context, o *Options, g *Authenticator, s Store) error {
	metrics := promhold.New(nil)
	dashboard := dash.Handler(s.Console, &dash.Options{
		BasePath: o.BasePath, Store: s.Where, Authorize: g.role, User: requester, AllowUnlock: o.AllowUnlock, Forced: s.Forced,
		Findings: s.findings, NamePrefix: o.Names, Counters: o.Counters, Logger: s.Log,
	})
	defer dashboard.Close()

	numbers := metricsHandler(metrics, dashboard)
	pages := http.NewServeMux()
	pages.Handle("/", g.guard(dashboard))
	pages.Handle("/metrics", g.guard(numbers))
	pages.HandleFunc("/healthz", healthy)
	front := &webServer{address: o.Listen, handler: pages, cert: o.TLSCert, key: o.TLSKey, most: g.mostConns}
	front.ready = func(address string) { o.announce(g, address, s) }
	servers := []*webServer{front}
	if o.MetricsListen != "" {
		apart := http.NewServeMux()
		apart.Handle("/metrics", numbers)
		apart.HandleFunc("/healthz", healthy)
		servers = append(servers, &webServer{address: o.MetricsListen, handler: apart, most: g.mostConns, ready: func(address string) {
			s.Report.Warn("metrics at http://%s/metrics", address)
		}})
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if !o.OnlyViewed {
			_ = dashboard.Watch(watching)
		}
	}()
	defer func() { stop(); <-watched }()
	return runServers(ctx, servers, dashboard.Close)
}

// announce reports the address of the pages.
func (o *Options) announce(g *Authenticator, address string, s Store) {
	scheme := "http"
	if o.TLSCert != "" {
		scheme = "https"
	}
	what := "read-only"
	if o.AllowUnlock {
		what = "operators may end locks"
	}
	if g.Open() && !o.Private {
		what += ", open to everybody"
	}
	path := strings.Trim(o.BasePath, "/")
	if path != "" {
		path += "/"
	}
	s.Report.Line(slog.LevelInfo, fmt.Sprintf("the locks of %s are at %s://%s/%s (%s)", s.Where, scheme, address, path, what))
}

// metricsHandler returns the handler of /metrics: numbers of this process, and of the
// dashboard's polls.
func metricsHandler(metrics prometheus.Collector, d *dash.Dashboard) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge := func(name, help string, value func(dash.Stats) float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "holdfast_serve_" + name, Help: help}, func() float64 {
			return value(d.Stats())
		}))
	}
	gauge("store_up", "Whether the store answered last.", func(s dash.Stats) float64 {
		if s.Answered.IsZero() || !s.Failing.IsZero() {
			return 0
		}
		return 1
	})
	gauge("store_answer_seconds", "Median time of an answer of the store.", func(s dash.Stats) float64 { return s.Answer.Seconds() })
	gauge("names", "Names in use, as seen.", func(s dash.Stats) float64 { return float64(s.Names) })
	gauge("held", "Holds of all programs, as seen.", func(s dash.Stats) float64 { return float64(s.Held) })
	gauge("waiting", "Those who wait, of all programs, as seen.", func(s dash.Stats) float64 { return float64(s.Waiting) })
	gauge("viewers", "Browsers that look now.", func(s dash.Stats) float64 { return float64(s.Viewers) })
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// healthy answers "ok" and closes the connection, as guard does. The answer says nothing
// about the store: a restart of this process would not repair the store.
func healthy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Connection", "close")
	_, _ = io.WriteString(w, "ok\n")
}

// webServer is a server for one address.
type webServer struct {
	address   string
	handler   http.Handler
	cert, key string
	most      func(peer netip.Addr) int // connections of an address
	ready     func(address string)
}

// server returns the http.Server. Its timeouts end the connection of a client that does not
// read its answer, which could otherwise keep it forever.
func (s *webServer) server() *http.Server {
	return &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: writeLimit,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
}

// runServers runs the servers until ctx ends or one of them fails. Then it calls closing,
// which must end the requests that never end by themselves, and waits for the others.
func runServers(ctx context.Context, list []*webServer, closing func()) error {
	failed := make(chan error, len(list))
	var running []*http.Server
	var first error
	for _, s := range list {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
		if err != nil {
			first = cannotListen(s.address, err)
			break
		}
		server := s.server()
		running = append(running, server)
		s.ready(listener.Addr().String())
		go func() { failed <- s.serve(server, newFairListener(listener, s.most)) }()
	}
	if first == nil {
		select {
		case <-ctx.Done():
		case first = <-failed:
			failed <- nil
		}
	}
	closing()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	for _, server := range running {
		if server.Shutdown(limited) != nil {
			_ = server.Close()
		}
	}
	for range running {
		<-failed
	}
	if errors.Is(first, http.ErrServerClosed) {
		return nil
	}
	return first
}

// cannotListen returns an error of Listen with its status. An invalid address is an error of
// the command line. If the system refuses the address, for example because another program
// listens on it, that may be over soon.
func cannotListen(address string, err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return &output.ExitError{Code: output.ExitFailure, Err: fmt.Errorf("listen on %s: %w", address, err)}
	}
	return output.UsageError("listen on %s: %w", address, err)
}

func (s *webServer) serve(server *http.Server, listener net.Listener) error {
	var err error
	if s.cert != "" {
		err = server.ServeTLS(listener, s.cert, s.key)
	} else {
		err = server.Serve(listener)
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		listener.Close()
		return output.UsageError("serve on %s: %w", s.address, err)
	}
	return err
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
		list = append(list, dash.Finding{Severity: severity(f.Severity), Title: title, Text: text, Remedy: f.Remedy})
	}
	return list
}

func severity(s doctor.Severity) dash.Severity {
	switch s {
	case doctor.OK:
		return dash.Good
	case doctor.Unknown:
		return dash.Unknown
	case doctor.Note:
		return dash.Note
	case doctor.Warning:
		return dash.Warning
	default:
		return dash.Danger
	}
}
