package dash_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/memhold"
)

// A server may limit the time of an answer: a stream outlasts it.
func TestStreamOutlastsTheLimitOfTheServer(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &site{T: t, store: &store{Backend: memhold.New()}}
				s.d = dash.Handler(admin.New(s.store), nil)
				wire := &wire{conns: make(chan net.Conn), done: make(chan struct{})}
				var protocols http.Protocols
				protocols.SetHTTP1(version == "HTTP/1.1")
				protocols.SetUnencryptedHTTP2(version == "HTTP/2")
				server := &http.Server{Handler: s.d, WriteTimeout: 7 * time.Second, Protocols: &protocols}
				transport := &http.Transport{DialContext: wire.dial, Protocols: &protocols}
				s.client = &http.Client{Transport: transport}
				served := make(chan error)
				go func() { served <- server.Serve(wire) }()
				defer func() {
					s.d.Close()
					transport.CloseIdleConnections()
					server.Close()
					<-served
				}()
				st := s.follow("view=", "")
				defer st.close()
				began := time.Now()
				for time.Since(began) < time.Minute {
					if _, err := st.lines.ReadString('\n'); err != nil {
						t.Fatalf("the stream ended after %v: %v", time.Since(began), err)
					}
				}
			})
		})
	}
}

// foreign makes s send requests that another site has made a browser send.
func foreign(site, mode, dest string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", site)
		r.Header.Set("Sec-Fetch-Mode", mode)
		r.Header.Set("Sec-Fetch-Dest", dest)
	}
}

// Another site that makes a browser load pages takes no view from the user.
func TestForeignSitesTakeNoViews(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		for i := range 70 {
			for _, from := range []string{"cross-site", "same-site"} {
				for dest, want := range map[string]int{"image": 403, "iframe": 403, "document": 200} {
					mode := "navigate"
					if dest == "image" {
						mode = "no-cors"
					}
					r := s.request(http.MethodGet, fmt.Sprintf("/?q=%s%s%d", from, dest, i), nil)
					foreign(from, mode, dest)(r)
					if a := s.send(r); a.status != want {
						t.Fatalf("%s, %s: got status %d, want %d", from, dest, a.status, want)
					}
				}
			}
		}
		st := s.follow("view=", "")
		defer st.close()
		if _, ok := st.next(); !ok {
			t.Error("the owner's stream has ended")
		}
	})
}

// Views that no browser watches are dropped first, then those of the user who has most of
// them, for a user who has few.
func TestViewsMakeRoom(t *testing.T) {
	user := ""
	inBubble(t, &dash.Options{User: func(*http.Request) string { return user }}, func(t *testing.T, s *site) {
		for i := range 70 { // without a word of where they come from, as over plain HTTP
			s.get(fmt.Sprintf("/?q=%d", i))
		}
		own := s.follow("view=", "")
		if _, ok := own.next(); !ok {
			t.Error("no stream after 70 pages that nobody watches")
		}
		own.close()
		synctest.Wait()

		user = "greedy"
		taken := 0
		for i := range 70 {
			r := s.request(http.MethodGet, fmt.Sprintf("/events?view=&q=g%d", i), nil)
			response, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode == http.StatusOK {
				taken++
			}
		}
		if taken != 64 {
			t.Errorf("got %d views of one viewer, want 64", taken)
		}
		user = "ada"
		for _, q := range []string{"view=", "view=holders", "view=&q=a"} {
			st := s.follow(q, "")
			defer st.close()
			if _, ok := st.next(); !ok {
				t.Errorf("%s: another viewer gets no stream", q)
			}
		}
	})
}

// A user with very many streams loses the oldest one to a user who has few, also if the user
// never reads. The others keep theirs.
func TestStreamsMakeRoom(t *testing.T) {
	user := "greedy"
	inBubble(t, &dash.Options{User: func(*http.Request) string { return user }}, func(t *testing.T, s *site) {
		status := func() int {
			response, err := s.client.Do(s.request(http.MethodGet, "/events?view=", nil))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { response.Body.Close() })
			return response.StatusCode
		}
		for i := range 258 {
			if got, want := status(), map[bool]int{true: 200, false: 503}[i < 256]; got != want {
				t.Errorf("stream %d of one user: got status %d, want %d", i, got, want)
			}
		}
		user = "ada"
		st := s.follow("view=", "")
		defer st.close()
		if _, ok := st.next(); !ok {
			t.Error("another user gets no stream")
		}
		user = "greedy"
		for range 10 {
			if got := status(); got != http.StatusServiceUnavailable {
				t.Errorf("a further stream of the greedy user: got status %d, want 503", got)
			}
		}
		if _, ok := st.next(); !ok {
			t.Error("the stream of another user has ended")
		}
	})
}
