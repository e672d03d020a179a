package webdemo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// handler returns everything that is served.
func (s *site) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /events", s.events)
	mux.HandleFunc("GET /state", s.stateNow)
	mux.Handle("GET /static/{name}", s.front)
	for _, i := range s.instances {
		mux.HandleFunc(fmt.Sprintf("/lock%d", i.number), acts(func(w http.ResponseWriter, r *http.Request) { s.lock(w, r, i) }))
	}
	mux.HandleFunc("/redlock", acts(s.redlock))
	mux.HandleFunc("/oversell", acts(s.oversell))
	mux.HandleFunc("POST /instance", s.fault(func(n int, what string) error {
		if n < 1 || n > len(s.instances) {
			return fmt.Errorf("there is no instance %d", n)
		}
		return s.instances[n-1].do(what)
	}))
	mux.HandleFunc("POST /node", s.fault(s.arena.do))
	return s.guarded(mux)
}

// acts lets GET and POST through: GET too, because that is what people type into
// the address bar. guarded has seen to it that no other site is behind it.
func acts(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodPost {
			w.Header().Set("Allow", "GET, POST")
			fail(w, r, http.StatusMethodNotAllowed, errors.New("use POST"))
			return
		}
		next(w, r)
	}
}

// lock takes the lock in an instance, and answers when it is released.
func (s *site) lock(w http.ResponseWriter, r *http.Request, i *instance) {
	work, err := duration(r, "work", defaultWork, maxWork)
	if err != nil {
		fail(w, r, http.StatusBadRequest, err)
		return
	}
	j, err := i.ask(work)
	if err != nil {
		w.Header().Set("Retry-After", "1")
		s.refuse(w, r, http.StatusServiceUnavailable, fmt.Errorf("%s: %w", i.name, err))
		return
	}
	if fromPage(r) {
		backToPage(w, r)
		return
	}
	select {
	case <-j.done:
	case <-r.Context().Done():
		i.drop(j)
		return
	}
	status := http.StatusOK
	switch j.result.Outcome {
	case outcomeLost:
		status = http.StatusConflict
	case outcomeDone:
	default:
		status = http.StatusServiceUnavailable
	}
	answer(w, r, status, j.result, j.result.String())
}

// redlock lets the workers race, and answers with the places.
func (s *site) redlock(w http.ResponseWriter, r *http.Request) {
	if err := s.arena.begin(); err != nil {
		s.refuse(w, r, http.StatusConflict, fmt.Errorf("the race: %w", err))
		return
	}
	s.start(w, r, func(ctx context.Context) {
		race := s.arena.run(ctx)
		if !fromPage(r) {
			answer(w, r, http.StatusOK, race, race.String())
		}
	})
}

// oversell sells the last items to many buyers.
func (s *site) oversell(w http.ResponseWriter, r *http.Request) {
	locked := r.FormValue("locked")
	if locked == "" {
		locked = "0"
	}
	buyers, err := number(r, "buyers", defaultBuyers, 1, maxBuyers)
	items, other := number(r, "items", min(defaultItems, max(1, buyers-1)), 1, maxBuyers)
	switch {
	case err == nil && other != nil:
		err = other
	case err == nil && locked != "0" && locked != "1":
		err = fmt.Errorf("locked=%q: use 0 or 1", locked)
	}
	if err != nil {
		fail(w, r, http.StatusBadRequest, err)
		return
	}
	sale, err := s.mall.begin(locked == "1", buyers, items)
	if err != nil {
		s.refuse(w, r, http.StatusConflict, fmt.Errorf("the sale: %w", err))
		return
	}
	s.start(w, r, func(ctx context.Context) {
		result := sale.run(ctx)
		if fromPage(r) {
			return
		}
		status := http.StatusOK
		if result.Error != "" {
			status = http.StatusServiceUnavailable
		}
		answer(w, r, status, result, result.String())
	})
}

// start runs something that was reserved: while the client waits, or, asked for by
// the page, while it shows what happens. It ends with the site.
func (s *site) start(w http.ResponseWriter, r *http.Request, what func(context.Context)) {
	if fromPage(r) {
		s.all.Go(func() { what(s.life) })
		backToPage(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	what(ctx)
}

// fault does something to an instance or a node.
func (s *site) fault(do func(n int, what string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.FormValue("n"))
		if err != nil {
			fail(w, r, http.StatusBadRequest, errors.New("n must be a number"))
			return
		}
		what := r.FormValue("do")
		switch err := do(n, what); {
		case errors.Is(err, errStarting), errors.Is(err, errDeaf):
			s.refuse(w, r, http.StatusServiceUnavailable, err)
		case err != nil:
			fail(w, r, http.StatusBadRequest, err)
		case fromPage(r):
			backToPage(w, r)
		default:
			answer(w, r, http.StatusOK, map[string]any{"n": n, "done": what}, "done: "+what)
		}
	}
}

// stateNow answers with all that the page shows, as JSON.
func (s *site) stateNow(w http.ResponseWriter, r *http.Request) {
	s.look(r.Context())
	now, _, _ := s.board.read()
	writeJSON(w, http.StatusOK, now)
}

// fromPage says that a form of the page asks: the page shows what comes of it.
func fromPage(r *http.Request) bool { return r.FormValue("back") != "" }

func backToPage(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "./", http.StatusSeeOther)
}

// refuse answers that something is not possible now. The page shows it as an
// event.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	if fromPage(r) {
		s.board.log("warn", "Not now: %v", err)
		backToPage(w, r)
		return
	}
	fail(w, r, status, err)
}

func fail(w http.ResponseWriter, r *http.Request, status int, err error) {
	answer(w, r, status, map[string]string{"error": err.Error()}, err.Error())
}

// answer answers with JSON for programs that ask for it, else with text.
func answer(w http.ResponseWriter, r *http.Request, status int, value any, text string) {
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		writeJSON(w, status, value)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // a client that is gone needs no answer
}

// duration reads a parameter such as "5s"; a bare number is seconds.
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

func number(r *http.Request, name string, otherwise, least, most int) (int, error) {
	text := strings.TrimSpace(r.FormValue(name))
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s=%.20q: use a number from %d to %d", name, text, least, most)
	}
	return n, nil
}
