package dash_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/memhold"
)

// site is a dashboard in a bubble: when a test ends, none of its goroutines may be left.
type site struct {
	*testing.T
	store  *store
	locker *holdfast.Locker // of the programs that take locks
	d      *dash.Dashboard
	client *http.Client
}

// inBubble runs a test with a dashboard of its own, over connections in memory.
func inBubble(t *testing.T, opts *dash.Options, test func(*testing.T, *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &site{T: t, store: &store{Backend: memhold.New()}}
		s.locker = holdfast.New(s.store.Backend, &holdfast.Options{Note: "app@host:1"})
		s.d = dash.Handler(admin.New(s.store), opts)
		wire := &wire{conns: make(chan net.Conn), done: make(chan struct{})}
		server := &http.Server{Handler: s.d}
		transport := &http.Transport{DialContext: wire.dial}
		s.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		served := make(chan error)
		go func() { served <- server.Serve(wire) }()
		t.Cleanup(func() {
			s.d.Close()
			transport.CloseIdleConnections()
			if err := server.Shutdown(context.Background()); err != nil {
				t.Errorf("shutdown: %v", err)
			}
			<-served
		})
		test(t, s)
	})
}

// wire is a network in memory.
type wire struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case w.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.done:
		return nil, net.ErrClosed
	}
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error   { w.once.Do(func() { close(w.done) }); return nil }
func (w *wire) Addr() net.Addr { return &net.TCPAddr{} }

// store is a store that can fail, and that counts its calls.
type store struct {
	*memhold.Backend
	mu     sync.Mutex
	fails  error
	mute   bool
	walks  error // how each walk ends, after three names
	looked int   // names
	waits  []admin.ClientWait
}

func (s *store) Describe(ctx context.Context, name string) (admin.Detail, error) {
	d, err := s.Backend.Describe(ctx, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Waits = s.waits
	return d, err
}

var errDown = errors.New("connection refused")

func (s *store) set(fails error, mute bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails, s.mute = fails, mute
}

func (s *store) breakOff(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.walks = err
}

func (s *store) List(ctx context.Context, o admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		s.mu.Lock()
		walks := s.walks
		s.mu.Unlock()
		n := 0
		for r, err := range s.Backend.List(ctx, o) {
			if n++; walks != nil && n > 3 {
				yield(admin.Record{}, walks)
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looked
}

func (s *store) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	s.mu.Lock()
	fails, mute := s.fails, s.mute
	s.looked += len(names)
	s.mu.Unlock()
	if mute {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if fails != nil {
		return nil, fails
	}
	return s.Backend.Get(ctx, names...)
}

func (s *site) lock(name string, opts ...holdfast.Option) *holdfast.Lock {
	s.Helper()
	lock, err := s.locker.TryLock(s.Context(), name, opts...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = lock.Unlock() })
	return lock
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (s *site) send(r *http.Request) answer {
	s.Helper()
	response, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func (s *site) get(path string) answer {
	s.Helper()
	return s.send(s.request(http.MethodGet, path, nil))
}

// shows wants the page at path to have these texts, and returns it.
func (s *site) shows(path string, texts ...string) (body string) {
	s.Helper()
	body = s.get(path).body
	for _, text := range texts {
		if !strings.Contains(body, text) {
			s.Errorf("%s: no %q in\n%s", path, text, body)
		}
	}
	return body
}

func (s *site) wantStatus(want int, path string) {
	s.Helper()
	if got := s.get(path).status; got != want {
		s.Errorf("%s: got status %d, want %d", path, got, want)
	}
}

func (s *site) request(method, path string, form url.Values) *http.Request {
	s.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(s.Context(), method, "http://dash.example"+path, body)
	if err != nil {
		s.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

// frame is an update as browsers get it.
type frame struct {
	ID    int64
	AsOf  int64
	Full  bool
	Order []string
	HTML  map[string]string
}

// all returns everything that a frame shows.
func (f frame) all() string {
	var text strings.Builder
	for _, html := range f.HTML {
		text.WriteString(html)
	}
	return text.String()
}

// stream is an open stream of updates.
type stream struct {
	s     *site
	body  io.ReadCloser
	lines *bufio.Reader
}

// follow opens a stream. The caller must close it.
func (s *site) follow(query, lastID string) *stream {
	s.Helper()
	r := s.request(http.MethodGet, "/events?"+query, nil)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	response, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		s.Fatalf("got status %d, type %q, want a stream", response.StatusCode, kind)
	}
	return &stream{s, response.Body, bufio.NewReader(response.Body)}
}

func (st *stream) close() { st.body.Close() }

// next returns the next frame; ok is false at the end.
func (st *stream) next() (f frame, ok bool) {
	st.s.Helper()
	for {
		line, err := st.lines.ReadString('\n')
		if err != nil {
			return frame{}, false
		}
		if data, found := strings.CutPrefix(line, "data: "); found {
			if err := json.Unmarshal([]byte(data), &f); err != nil {
				st.s.Fatalf("frame %q: %v", data, err)
			}
			return f, true
		}
	}
}

// until returns the first frame that has text, and how long it took.
func (st *stream) until(limit time.Duration, text string) (frame, time.Duration) {
	st.s.Helper()
	began := time.Now()
	for {
		f, ok := st.next()
		took := time.Since(began)
		switch {
		case !ok || took > limit:
			st.s.Fatalf("no frame with %q within %v (took %v, open %v)", text, limit, took, ok)
		case strings.Contains(f.all(), text):
			return f, took
		}
	}
}
