package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/webpage"
)

// Defaults and bounds for the parameters of a request.
const (
	defaultWork   = 20 * time.Second
	mostWork      = 2 * time.Minute
	defaultBuyers = 60
	mostBuyers    = 1000
	defaultItems  = 10
	mostBody      = 4 << 10
)

// handler returns everything that is served: the dashboard, and the scenes beside it.
func (s *site) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.dashboard)
	mux.Handle("GET /demo", s.scenes())
	files := webpage.Load(pageFiles, "page")
	for _, name := range []string{"demo.css", "demo.js"} {
		mux.Handle("GET /static/"+name, files[name])
	}
	for _, i := range s.Instances {
		mux.HandleFunc(fmt.Sprintf("/lock%d", i.number), acts(func(w http.ResponseWriter, r *http.Request) { s.lock(w, r, i) }))
	}
	mux.HandleFunc("/both", acts(s.both))
	mux.HandleFunc("/redlock", acts(s.race))
	mux.HandleFunc("/oversell", acts(s.oversell))
	mux.HandleFunc("/sales", acts(s.bothSales))
	mux.HandleFunc("/instance", fault(len(s.Instances), []string{"pause", "resume", "kill", wordCut, wordMend}, func(n int, what string) error {
		return s.Instances[n].do(what)
	}))
	mux.HandleFunc("/node", fault(len(s.Servers), []string{wordCut, wordMend}, func(n int, what string) error {
		s.Servers[n].Cut.Store(what == wordCut)
		return nil
	}))
	return s.guarded(mux)
}

// guarded returns a handler that checks requests before `next`. It refuses host names that
// another site can have. Such a site could give its own name the address of this machine, and
// then use the pages in the browser of a user.
func (s *site) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		webpage.Protect(w.Header())
		if !s.accepts(r.Host) {
			fail(w, r, http.StatusMisdirectedRequest, errors.New("the demo does not know this name; use the address that the demo printed"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		next.ServeHTTP(w, r)
	})
}

// accepts reports whether `host`, the host of a request, is a name that no other site can
// have: localhost, or an address. If the pages are not on loopback, these are also the host
// that --listen names, and the name of this machine.
func (s *site) accepts(host string) bool {
	host = hostOf(host)
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "localhost", err == nil && ip.Unmap().IsLoopback():
		return true
	case s.loopback:
		return false
	case err == nil, host == hostOf(s.Listen):
		return true
	}
	name, err := os.Hostname()
	return err == nil && host == strings.ToLower(name)
}

// hostOf returns the host of "host:port" in lower case.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// acts returns a handler that checks requests before `next`, which changes something. It
// accepts only POST. Any page can make a browser send a GET, by an image for example, and on
// another address than loopback the browser does not say which site has asked for it. A
// browser says that of a POST, and acts refuses requests for another site.
func acts(next http.HandlerFunc) http.HandlerFunc {
	protection := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			fail(w, r, http.StatusMethodNotAllowed, errors.New("use POST: the page /demo has a button for it"))
		case protection.Check(r) != nil:
			fail(w, r, http.StatusForbidden, errors.New("this request came from another site"))
		default:
			next(w, r)
		}
	}
}

// lock lets instance i take the lock, and answers when the process of this request has ended.
func (s *site) lock(w http.ResponseWriter, r *http.Request, i *instance) {
	work, err := workOf(r)
	if err != nil {
		fail(w, r, http.StatusBadRequest, err)
		return
	}
	s.perform(w, r, action{name: fmt.Sprintf("lock%d", i.number), run: func(ctx context.Context) reply { return i.lock(ctx, work) }})
}

func workOf(r *http.Request) (time.Duration, error) {
	return parameter(r, "work", defaultWork, time.Millisecond, mostWork, time.ParseDuration)
}

// both lets each instance take the lock that has no process yet, and answers at once.
func (s *site) both(w http.ResponseWriter, r *http.Request) {
	work, err := workOf(r)
	if err != nil {
		fail(w, r, http.StatusBadRequest, err)
		return
	}
	for _, i := range s.Instances {
		if len(s.timeline.states(i.number)) > 0 {
			continue
		}
		lock := func(ctx context.Context) reply { return i.lock(ctx, work) }
		if run, free := s.claim(action{name: fmt.Sprintf("both%d", i.number), alone: true, run: lock}); free { // a person may press the button twice
			s.all.Go(func() { run(s.life) })
		}
	}
	http.Redirect(w, r, "demo", http.StatusSeeOther)
}

// race lets the workers compete for a majority, and answers with the order in which they got
// the lock.
func (s *site) race(w http.ResponseWriter, r *http.Request) {
	s.perform(w, r, action{name: actionRace, alone: true, run: func(ctx context.Context) reply {
		s.round++
		return reply{http.StatusOK, s.Servers.race(ctx, s.round)}
	}})
}

// oversell runs a sale of few items to many buyers, and answers with its result.
func (s *site) oversell(w http.ResponseWriter, r *http.Request) {
	locked := cmp.Or(r.FormValue("locked"), "0")
	buyers, items, err := sizeOf(r)
	if err == nil && locked != "0" && locked != "1" {
		err = fmt.Errorf("locked=%q: use 0 or 1", locked)
	}
	if err != nil {
		fail(w, r, http.StatusBadRequest, err)
		return
	}
	s.perform(w, r, s.sale(locked == "1", buyers, items))
}

// sizeOf returns how many buyers and items a request wants.
func sizeOf(r *http.Request) (buyers, items int, err error) {
	buyers, err = parameter(r, "buyers", defaultBuyers, 1, mostBuyers, strconv.Atoi)
	items, other := parameter(r, "items", min(defaultItems, max(1, buyers-1)), 1, mostBuyers, strconv.Atoi)
	return buyers, items, cmp.Or(err, other)
}

func (s *site) sale(locked bool, buyers, items int) action {
	return action{name: actionSale(locked), alone: true, run: func(ctx context.Context) reply { return s.sell(ctx, locked, buyers, items) }}
}

// bothSales begins a sale without a lock and one with a lock, and answers at once.
func (s *site) bothSales(w http.ResponseWriter, r *http.Request) {
	buyers, items, err := sizeOf(r)
	if err != nil {
		fail(w, r, http.StatusBadRequest, err)
		return
	}
	for _, locked := range []bool{false, true} {
		if run, free := s.claim(s.sale(locked, buyers, items)); free {
			s.background(actionSale(locked), run)
		}
	}
	http.Redirect(w, r, "demo", http.StatusSeeOther)
}

// action is something that a request starts. If `alone` is true, a second run is refused until
// the first has ended.
type action struct {
	name  string
	alone bool
	run   func(context.Context) reply
}

// Names of actions.
const actionRace = "race"

func actionSale(locked bool) string {
	if locked {
		return "sale with a lock"
	}
	return "sale without a lock"
}

// underWay is the result of an action that runs.
type underWay struct{}

// claim returns a function that runs an action. The result `free` is false if the action must
// not run now.
func (s *site) claim(a action) (run func(context.Context) reply, free bool) {
	if !a.alone {
		return a.run, true
	}
	if _, busy := s.busy.LoadOrStore(a.name, true); busy {
		return nil, false
	}
	return func(ctx context.Context) reply {
		defer s.busy.Delete(a.name)
		return a.run(ctx)
	}, true
}

// background runs an action, also when the browser opens another page. The page shows its
// result.
func (s *site) background(name string, run func(context.Context) reply) {
	s.results.Store(name, underWay{})
	s.all.Go(func() { s.results.Store(name, run(s.life).Stringer) })
}

// perform runs an action and answers with its result. If a form of the page asks for the
// action, perform answers at once, and the action runs in the background.
func (s *site) perform(w http.ResponseWriter, r *http.Request, a action) {
	run, free := s.claim(a)
	switch {
	case !free:
		fail(w, r, http.StatusConflict, errors.New("the same action is already running; wait for its end"))
	case r.FormValue("back") == "":
		answer(w, r, run(r.Context()))
	default:
		s.background(a.name, run)
		http.Redirect(w, r, "demo", http.StatusSeeOther)
	}
}

// fault returns a handler that calls `do` for one instance or server, and redirects the browser
// to the page. The parameter `several` is the number of instances or servers, and `known` has
// the actions that a request may ask for.
func fault(several int, known []string, do func(n int, what string) error) http.HandlerFunc {
	return acts(func(w http.ResponseWriter, r *http.Request) {
		n, err := parameter(r, "n", 0, 1, several, strconv.Atoi)
		what := r.FormValue("do")
		if err == nil && !slices.Contains(known, what) {
			err = fmt.Errorf("do=%.20q: use one of %s", what, strings.Join(known, ", "))
		}
		if err == nil {
			err = do(n-1, what)
		}
		if err != nil {
			fail(w, r, http.StatusBadRequest, err)
			return
		}
		http.Redirect(w, r, "demo", http.StatusSeeOther)
	})
}

// reply is an answer: an HTTP status, and a value that is sent as JSON or as text.
type reply struct {
	code int
	fmt.Stringer
}

// problem is an answer that says why something is not possible.
type problem struct {
	Error string `json:"error"`
}

// String returns the reason.
func (p problem) String() string { return p.Error }

func fail(w http.ResponseWriter, r *http.Request, code int, err error) {
	answer(w, r, reply{code, problem{err.Error()}})
}

// answer answers with JSON if the client asks for it, else with text. It ignores errors of
// clients that have disconnected.
func answer(w http.ResponseWriter, r *http.Request, a reply) {
	if a.code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.code)
		_ = json.NewEncoder(w).Encode(a.Stringer)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(a.code)
	fmt.Fprintln(w, a)
}

// parameter returns the value of the parameter `name` of the request, or `otherwise` if there
// is none. It returns an error if the value is not in the range from `least` to `most`.
func parameter[T cmp.Ordered](r *http.Request, name string, otherwise, least, most T, parse func(string) (T, error)) (value T, err error) {
	text := strings.TrimSpace(r.FormValue(name))
	if value = otherwise; text != "" {
		value, err = parse(text)
	}
	if err != nil || value < least || value > most {
		return value, fmt.Errorf("%s=%.20q: use a value from %v to %v", name, text, least, most)
	}
	return value, nil
}
