package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/await"
)

// screenText is what a command that goes on has written so far.
type screenText struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func (s *screenText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *screenText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// served is a running "holdfast serve".
type served struct {
	*testing.T
	url    string // with a slash at the end
	stderr *screenText
	client *http.Client
	stop   func() int // ends it and returns its status
}

// serve starts the command, and stops it at the end of the test.
func (s *site) serve(args ...string) *served {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	v := &served{T: s.t, stderr: &screenText{more: make(chan struct{}, 1)}}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"serve", "--url", s.url, "--listen", "127.0.0.1:0"}, args...), output.Environment{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: v.stderr})
	}()
	transport := &http.Transport{}
	v.client = &http.Client{Transport: transport, Timeout: 10 * time.Second}
	v.stop = sync.OnceValue(func() int {
		cancel()
		transport.CloseIdleConnections()
		select {
		case code := <-ended:
			return code
		case <-time.After(10 * time.Second):
			return -1
		}
	})
	s.t.Cleanup(func() { v.stop() })
	limit := time.After(10 * time.Second)
	for {
		if m := regexp.MustCompile(`the locks of .* are at (http://\S+/) `).FindStringSubmatch(v.stderr.String()); m != nil {
			v.url = m[1]
			return v
		}
		select {
		case <-v.stderr.more:
		case code := <-ended:
			s.t.Fatalf("serve ended with status %d: %s", code, v.stderr)
		case <-limit:
			s.t.Fatalf("serve does not say where it is: %s", v.stderr)
		}
	}
}

// get returns the status and the body of a page.
func (v *served) get(path string, prepare ...func(*http.Request)) (int, string) {
	v.Helper()
	r, err := http.NewRequest(http.MethodGet, v.url+path, nil)
	if err != nil {
		v.Fatal(err)
	}
	for _, p := range prepare {
		p(r)
	}
	response, err := v.client.Do(r)
	if err != nil {
		v.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		v.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestServe(t *testing.T) {
	s := newSite(t)
	s.take(func() (*holdfast.Lock, error) { return s.locker("app@host:1").TryLock(t.Context(), "deploy/prod") })
	v := s.serve("--metrics-listen", "127.0.0.1:0")
	if code, body := v.get(""); code != 200 || !strings.Contains(body, "deploy/prod") {
		t.Errorf("got %d: %s", code, body)
	}
	if code, body := v.get("healthz"); code != 200 || body != "ok\n" {
		t.Errorf("healthz: got %d: %q", code, body)
	}
	apart := regexp.MustCompile(`metrics at (\S+)`).FindStringSubmatch(v.stderr.String())
	if apart == nil {
		t.Fatalf("no address for metrics: %s", v.stderr)
	}
	// The names may be known, by the walk over them, before the first look has ended.
	await.Until(t, 10*time.Second, "the store is up", func() bool {
		_, body := v.get("metrics")
		return strings.Contains(body, "holdfast_serve_store_up 1")
	})
	for _, url := range []string{v.url + "metrics", apart[1]} {
		response, err := v.client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		for _, want := range []string{"holdfast_serve_store_up 1", "holdfast_serve_names 1", "holdfast_serve_held 1", "holdfast_build_info", "go_goroutines"} {
			if !strings.Contains(string(body), want) {
				t.Errorf("%s: no %q in %s", url, want, body)
			}
		}
		if strings.Contains(string(body), "deploy") {
			t.Errorf("%s has the name of a lock", url)
		}
	}
	// A site elsewhere whose name leads here reads nothing.
	if code, body := v.get("", func(r *http.Request) { r.Host = "evil.example:7070" }); code != http.StatusForbidden || strings.Contains(body, "deploy") {
		t.Errorf("another host: got %d: %s", code, body)
	}
	stream, err := v.client.Get(v.url + "events?view=")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	began := await.NewWatch(t)
	if code := v.stop(); code != 0 {
		t.Errorf("got status %d at the end, want 0: %s", code, v.stderr)
	}
	if took := began.Took(); took > 3*time.Second {
		t.Errorf("it ended after %v, with an open stream", took)
	}
}

// What programs reported before the server was started is in the event log.
func TestServeKnowsThePast(t *testing.T) {
	s := newSite(t)
	s.run("run", "nightly", "--event-log", "--reason", "INC-7", "--", "true").want(t, 0)
	v := s.serve()
	await.Until(t, 20*time.Second, "the page says that nightly was released", func() bool {
		_, body := v.get("event-log")
		return strings.Contains(body, "nightly") && strings.Contains(body, "released") && strings.Contains(body, "INC-7")
	})
}

func TestServeRefusesToBeOpen(t *testing.T) {
	s := newSite(t)
	users := configure(t, "users", "ada:"+hash(t, "lovelace")+"\n")
	for _, test := range []struct{ args, want string }{
		{"--listen :7070", "can be reached from other machines"},
		{"--listen 0.0.0.0:7070", "can be reached from other machines"},
		{"--listen [::]:7070", "can be reached from other machines"},
		{"--listen 0.0.0.0:7070 --insecure-no-auth --allow-unlock", "would let everybody end locks"},
		{"--listen here", "missing port"},
		{"--auth-header X-User", "give --auth-header and --trusted together"},
		{"--auth-header X-User --trusted everybody", "is not an address"},
		{"--trusted 10.0.0.0/8", "--trusted needs --auth-header, --basic-file or --token-file"},
		{"--allow-unlock --basic-file " + users, "--operator"},
		{"--operator ada", "--allow-unlock"},
		{"--basic-file /no/such/file", "no such file"},
		{"--basic-file " + configure(t, "plain", "ada:lovelace\n"), "line 1: the password is not hashed"},
		{"--basic-file " + configure(t, "none", "# nobody\n"), "has no users"},
		{"--basic-file " + configure(t, "slow", "ada:"+strings.Replace(hash(t, "lovelace"), "$04$", "$20$", 1)+"\n"), "cost 20"},
		{"--token-file " + configure(t, "tokens", "ci short\n"), "line 1: the token is too short"},
		{"--tls-cert cert.pem", "give --tls-cert and --tls-key together"},
		{"--base-path /a/../b", "is not a path"},
	} {
		r := call(t, bare("HOLDFAST_URL="+s.url), append([]string{"serve"}, strings.Fields(test.args)...)...)
		if r.code != output.ExitUsage || !strings.Contains(r.stderr, test.want) {
			t.Errorf("%s: got status %d: %s; want %d with %q", test.args, r.code, r.stderr, output.ExitUsage, test.want)
		}
		if strings.Contains(r.stderr, "lovelace") || strings.Contains(r.stderr, "short\n") {
			t.Errorf("%s: the message shows a secret: %s", test.args, r.stderr)
		}
	}
}

func hash(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func TestServeAuthentication(t *testing.T) {
	s := newSite(t)
	const token = "0123456789abcdef0123"
	users := configure(t, "users", "# people\nada:"+hash(t, "lovelace")+"\ngrace:"+hash(t, "hopper")+"\n")
	tokens := configure(t, "tokens", "ci "+token+"\n")
	args := []string{"--basic-file", users, "--token-file", tokens, "--allow-unlock", "--operator", "ada", "--operator", "ci"}
	known := s.serve(args...)
	s.take(func() (*holdfast.Lock, error) { return s.locker("app@host:1").TryLock(t.Context(), "deploy") })
	basic := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for title, test := range map[string]struct {
		prepare  func(*http.Request)
		look     int
		operates bool
	}{
		"operator":           {basic("ada", "lovelace"), 200, true},
		"viewer":             {basic("grace", "hopper"), 200, false},
		"wrong password":     {basic("ada", "hopper"), 401, false},
		"nobody":             {basic("eve", "lovelace"), 401, false},
		"no password":        {basic("ada", ""), 401, false},
		"hash as password":   {basic("ada", hash(t, "lovelace")), 401, false},
		"nothing":            {func(*http.Request) {}, 401, false},
		"token":              {header("Authorization", "Bearer "+token), 200, true},
		"wrong token":        {header("Authorization", "Bearer "+token+"x"), 401, false},
		"empty token":        {header("Authorization", "Bearer "), 401, false},
		"token in a browser": {basic("ci", token), 200, true},
		"another's token":    {basic("ada", token), 401, false},
		"a header of nobody": {header("X-Forwarded-User", "ada"), 401, false},
	} {
		v := known
		if test.look == 401 { // a server knows nothing of the wrong passwords that another got
			v = s.serve(args...)
		}
		for range 2 { // the second time it is remembered
			for _, path := range []string{"", "metrics", "lock?name=deploy", "frame?view="} {
				code, body := v.get(path, test.prepare)
				if code != test.look {
					t.Errorf("%s: %q: got status %d, want %d", title, path, code, test.look)
				}
				if code == 401 && !strings.Contains(body, "Load this page again, and type the user name and the password") {
					t.Errorf("%s: %q says %s, want what to do", title, path, body)
				}
				if code == 401 && strings.Contains(body, "deploy") {
					t.Errorf("%s: %q tells %s", title, path, body)
				}
			}
			want := test.look
			if test.look == 200 && !test.operates {
				want = 403
			}
			if code, _ := v.get("unlock?name=deploy", test.prepare); code != want {
				t.Errorf("%s: unlock: got status %d, want %d", title, code, want)
			}
		}
	}
	if code, _ := known.get("healthz"); code != 200 {
		t.Errorf("healthz: got status %d, want 200 without a password", code)
	}
}

func TestServeBehindAProxy(t *testing.T) {
	s := newSite(t)
	believed := s.serve("--auth-header", "X-Forwarded-User", "--trusted", "10.0.0.0/8,127.0.0.1", "--base-path", "/locks/")
	user := func(names ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["X-Forwarded-User"] = names }
	}
	if code, _ := believed.get("", user("ada")); code != 200 {
		t.Errorf("got status %d through a trusted proxy, want 200", code)
	}
	for title, names := range map[string][]string{"no header": nil, "two headers": {"ada", "eve"}, "empty header": {""}} {
		if code, text := believed.get("", user(names...)); code != 401 || !strings.Contains(text, "open the address of the proxy") {
			t.Errorf("%s: got status %d and %q, want 401 and what to do", title, code, text)
		}
	}
	ignored := s.serve("--auth-header", "X-Forwarded-User", "--trusted", "10.0.0.1")
	if code, _ := ignored.get("", user("ada")); code != 401 {
		t.Errorf("got status %d with the header of somebody else, want 401", code)
	}
}

func TestServeFromConfiguration(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"users":         "ada:" + hash(t, "lovelace") + "\n",
		"holdfast.yaml": "url: " + s.url + "\nserve: {base_path: /locks/, auth: {basic_file: users}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v := s.serve("--config", filepath.Join(dir, "holdfast.yaml"))
	if !strings.HasSuffix(v.url, "/locks/") {
		t.Errorf("got address %s, want the path of the configuration", v.url)
	}
	if code, _ := v.get(""); code != 401 {
		t.Errorf("got status %d without a password, want 401", code)
	}
	if code, _ := v.get("", func(r *http.Request) { r.SetBasicAuth("ada", "lovelace") }); code != 200 {
		t.Errorf("got status %d with a password, want 200", code)
	}
}

// The operators of a service are in its configuration: who starts it gives no flags.
func TestServeOperatorsFromConfiguration(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "holdfast.yaml")
	write := func(serve string) {
		for name, text := range map[string]string{
			"users":         "ada:" + hash(t, "lovelace") + "\ngrace:" + hash(t, "hopper") + "\n",
			"holdfast.yaml": "url: " + s.url + "\nserve: {auth: {basic_file: users}, " + serve + "}\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.hold("job")
	forcePage := func(v *served, user, password string) int {
		code, _ := v.get("unlock?name=job", func(r *http.Request) { r.SetBasicAuth(user, password) })
		return code
	}
	for _, serve := range []string{"allow_unlock: true, operators: [ada]", "allow_unlock: true, operators: ada"} {
		write(serve)
		v := s.serve("--config", file)
		if ada, grace := forcePage(v, "ada", "lovelace"), forcePage(v, "grace", "hopper"); ada != 200 || grace != 403 {
			t.Errorf("%s: got %d for the operator and %d for another, want 200 and 403", serve, ada, grace)
		}
	}
	v := s.serve("--config", file, "--allow-unlock=false") // for this time
	if ada := forcePage(v, "ada", "lovelace"); ada == 200 {
		t.Errorf("got %d with --allow-unlock=false, want no page", ada)
	}
	for serve, want := range map[string]string{
		"allow_unlock: true": "operators",
		"operators: [ada]":   "--allow-unlock",
	} {
		write(serve)
		s.run("serve", "--config", file).want(t, 64, want)
	}
}

func TestServeTrustsTheListOfTheConfiguration(t *testing.T) {
	s := newSite(t)
	for trusted, want := range map[string]int{
		"[10.0.0.0/8, 127.0.0.1]":    200,
		"'10.0.0.0/8, 127.0.0.0/8'":  200,
		"['${PROXY:-127.0.0.1}']":    200,
		"[10.0.0.0/8]":               401,
		"[10.0.0.0/8, '10.1.0.0/9']": 401,
	} {
		file := configure(t, "holdfast.yaml", "url: "+s.url+"\nserve: {auth: {header: X-User, trusted: "+trusted+"}}\n")
		v := s.serve("--config", file)
		if code, _ := v.get("", func(r *http.Request) { r.Header.Set("X-User", "ada") }); code != want {
			t.Errorf("%s: got status %d, want %d", trusted, code, want)
		}
	}
	file := configure(t, "holdfast.yaml", "url: "+s.url+"\nserve: {auth: {header: X-User, trusted: [all]}}\n")
	s.run("serve", "--config", file).want(t, 64, `--trusted "all"`)
}

func TestServePortInUse(t *testing.T) {
	s := newSite(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := call(t, bare("HOLDFAST_URL="+s.url), "serve", "--listen", taken.Addr().String())
	if r.code != output.ExitFailure || !strings.Contains(r.stderr, "in use") {
		t.Errorf("got status %d: %s", r.code, r.stderr)
	}
	r = call(t, bare("HOLDFAST_URL="+s.url), "serve", "--listen", "127.0.0.1:99999")
	if r.code != output.ExitUsage || !strings.Contains(r.stderr, "99999") {
		t.Errorf("got status %d: %s", r.code, r.stderr)
	}
}

// A name that leads here, of a site elsewhere, is no name of this server, whatever user
// a header names.
func TestServeBehindAProxyChecksTheHost(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	v := s.serve("--auth-header", "X-User", "--trusted", "127.0.0.1", "--allow-unlock", "--operator", "ada", "--host", "Locks.example")
	for host, want := range map[string]int{
		"locks.example": 200, "LOCKS.example.:7070": 200, "localhost:7070": 200, "10.0.0.1": 200, "": 200, // "" is the address
		"evil.example": 403, "evil.example:7070": 403, "localhost.evil.example": 403, "10.0.0.1.nip.io": 403,
	} {
		rebound := func(r *http.Request) { r.Host = host; r.Header.Set("X-User", "ada") }
		for _, path := range []string{"", "metrics", "unlock?name=job", "events?view=none"} {
			code, body := v.get(path, rebound)
			if code != want && (want == 403 || path != "events?view=none") {
				t.Errorf("%q, %s: got status %d, want %d: %s", host, path, code, want, body)
			}
			if want == 403 && strings.Contains(body, "job") {
				t.Errorf("%q, %s: got %s", host, path, body)
			}
		}
	}
	for _, want := range []string{"every program and every user"} {
		if !strings.Contains(v.stderr.String(), want) {
			t.Errorf("no %q in %s", want, v.stderr)
		}
	}
	if v := s.serve("--auth-header", "X-User", "--trusted", "10.0.0.0/8"); !strings.Contains(v.stderr.String(), "--host") || strings.Contains(v.stderr.String(), "every user") {
		t.Errorf("got %s, want advice to name a --host, and no warning of this machine", v.stderr)
	}
}
