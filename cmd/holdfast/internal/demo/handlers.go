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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/webpage"
)

// Bounds of what a request may ask for.
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
	mux.Handle("GET /static/demo.js", webpage.Load(pageFiles, "page")["demo.js"])
	for _, i := range s.instances {
		mux.HandleFunc(fmt.Sprintf("/lock%d", i.number), acts(func(w http.ResponseWriter, r *http.Request) { s.lock(w, r, i) }))
	}
	mux.HandleFunc("/redlock", acts(s.race))
	mux.HandleFunc("/oversell", acts(s.oversell))
	mux.HandleFunc("POST /instance", fault(len(s.instances), []string{"pause", "resume", "kill", wordCut, wordMend}, func(n int, what string) error {
		return s.instances[n].do(what)
	}))
	mux.HandleFunc("POST /node", fault(len(s.servers), []string{wordCut, wordMend}, func(n int, what string) error {
		s.servers[n].Cut.Store(what == wordCut)
		return nil
	}))
	return s.guarded(mux)
}

// guarded refuses requests with the name of another machine, if the pages are on loopback:
// another site can give its name the address of this machine.
func (s *site) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		webpage.Protect(w.Header())
		if s.loopback && !local(r.Host) {
			fail(w, r, http.StatusMisdirectedRequest, errors.New("this name is not that of the demo; use the address that it printed"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		next.ServeHTTP(w, r)
	})
}

// local reports whether a host is a name of this machine that no other site can have.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// acts guards a handler that changes something. It accepts GET and POST; GET because people
// type the address into a browser. It refuses requests that another site has made a browser
// send.
func acts(next http.HandlerFunc) http.HandlerFunc {
	protection := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		asked := *r
		asked.Method = http.MethodPost // a GET that acts is a write like any other
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodPost:
			w.Header().Set("Allow", "GET, POST")
			fail(w, r, http.StatusMethodNotAllowed, errors.New("use POST"))
		case protection.Check(&asked) != nil:
			fail(w, r, http.StatusForbidden, errors.New("this request came from another site"))
		default:
			next(w, r)
		}
	}
}

// lock takes the lock in an instance, and answers when it is released.
func (s *site) lock(w http.ResponseWriter, r *http.Request, i *instance) {
	work, err := duration(r, "work", defaultWork, mostWork)
	if err != nil {
		fail(w, r, http.StatusBadRequest, err)
		return
	}
	s.perform(w, r, fmt.Sprintf("lock%d", i.number), nil, func(ctx context.Context) (int, fmt.Stringer) {
		result, err := i.lock(ctx, work)
		switch {
		case err != nil:
			return http.StatusServiceUnavailable, problem{fmt.Sprintf("instance %d: %v", i.number, err)}
		case result.Outcome == outcomeDone:
			return http.StatusOK, result
		case result.Outcome == outcomeLost:
			return http.StatusConflict, result
		}
		return http.StatusServiceUnavailable, result
	})
}

// race lets the workers race for a majority, and answers with the order in which they got the
// lock.
func (s *site) race(w http.ResponseWriter, r *http.Request) {
	s.perform(w, r, "race", &s.racing, func(ctx context.Context) (int, fmt.Stringer) { return http.StatusOK, s.redlock.run(ctx) })
}

// oversell sells the last items to many buyers.
func (s *site) oversell(w http.ResponseWriter, r *http.Request) {
	locked := cmp.Or(r.FormValue("locked"), "0")
	buyers, err := number(r, "buyers", defaultBuyers)
	items, other := number(r, "items", min(defaultItems, max(1, buyers-1)))
	if err = cmp.Or(err, other); err == nil && locked != "0" && locked != "1" {
		err = fmt.Errorf("locked=%q: use 0 or 1", locked)
	}
	if err != nil {
		fail(w, r, http.StatusBadRequest, err)
		return
	}
	now, busy := sale{Locked: locked == "1", Buyers: buyers, Items: items}, &s.selling[0]
	if now.Locked {
		busy = &s.selling[1]
	}
	s.perform(w, r, "sale"+locked, busy, func(ctx context.Context) (int, fmt.Stringer) {
		result := s.sell(ctx, now)
		if result.Error != "" {
			return http.StatusServiceUnavailable, result
		}
		return http.StatusOK, result
	})
}

// perform runs an action while the client waits. If busy is not nil, it is locked meanwhile,
// so that there is one such action at a time. For a form of the page, the action runs in the
// background, because the page shows the result: it must not end when the browser opens the
// page of the lock.
func (s *site) perform(w http.ResponseWriter, r *http.Request, action string, busy *sync.Mutex, run func(context.Context) (int, fmt.Stringer)) {
	if busy != nil {
		if !busy.TryLock() {
			fail(w, r, http.StatusConflict, fmt.Errorf("the %s: one is under way already", strings.TrimRight(action, "01")))
			return
		}
		whole := run
		run = func(ctx context.Context) (int, fmt.Stringer) {
			defer busy.Unlock()
			return whole(ctx)
		}
	}
	if r.FormValue("back") == "" {
		status, result := run(r.Context())
		answer(w, r, status, result)
		return
	}
	s.results.Store(action, "Under way…")
	s.all.Go(func() {
		_, result := run(s.life)
		s.results.Store(action, result.String())
	})
	http.Redirect(w, r, "demo", http.StatusSeeOther)
}

// fault does one of the known actions to one of several instances or servers, and shows the
// page.
func fault(several int, known []string, do func(n int, what string) error) http.HandlerFunc {
	return acts(func(w http.ResponseWriter, r *http.Request) {
		n, what := r.FormValue("n"), r.FormValue("do")
		index, err := strconv.Atoi(n)
		switch {
		case err != nil || index < 1 || index > several:
			err = fmt.Errorf("n=%.20q: use a number from 1 to %d", n, several)
		case !slices.Contains(known, what):
			err = fmt.Errorf("do=%.20q: use one of %s", what, strings.Join(known, ", "))
		default:
			err = do(index-1, what)
		}
		if err != nil {
			fail(w, r, http.StatusBadRequest, err)
			return
		}
		http.Redirect(w, r, "demo", http.StatusSeeOther)
	})
}

// problem is an answer that says why something is not possible.
type problem struct {
	Error string `json:"error"`
}

// String returns the reason.
func (p problem) String() string { return p.Error }

func fail(w http.ResponseWriter, r *http.Request, status int, err error) {
	answer(w, r, status, problem{err.Error()})
}

// answer answers with JSON if the client asks for it, else with text. It ignores errors of
// clients that have disconnected.
func answer(w http.ResponseWriter, r *http.Request, status int, value fmt.Stringer) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, value)
}

// duration reads a parameter such as "5s"; a bare number is seconds. It returns otherwise if
// there is no parameter, and an error if the duration is longer than `most`.
func duration(r *http.Request, name string, otherwise, most time.Duration) (time.Duration, error) {
	text := strings.TrimSpace(r.FormValue(name))
	if text == "" {
		return otherwise, nil
	}
	if _, err := strconv.Atoi(text); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > most {
		return 0, fmt.Errorf("%s=%.20q: use a duration up to %s, as 5s", name, text, most)
	}
	return d, nil
}

// number reads a parameter from 1 to mostBuyers. It returns otherwise if there is no
// parameter.
func number(r *http.Request, name string, otherwise int) (int, error) {
	text := strings.TrimSpace(r.FormValue(name))
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostBuyers {
		return 0, fmt.Errorf("%s=%.20q: use a number from 1 to %d", name, text, mostBuyers)
	}
	return n, nil
}
