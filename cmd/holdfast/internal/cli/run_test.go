package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// result is how a call of run ended.
type result struct {
	code           int
	stdout, stderr string
}

// site is a store and the environment of programs that use it.
type site struct {
	t       *testing.T
	server  *miniredis.Miniredis // nil: a real one
	url     string
	environ []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	server := miniredis.RunT(t)
	return &site{t: t, server: server, url: "redis://" + server.Addr(), environ: []string{
		"PATH=" + os.Getenv("PATH"), "HOLDFAST_URL=redis://" + server.Addr(),
	}}
}

func (s *site) run(args ...string) result {
	s.t.Helper()
	return call(s.t, s.environ, args...)
}

// runNaming runs a command that finds a lock busy, up to five times, until its message has a text
// about the holder. A command that waits looks the holder up in the background. If no try follows
// that answer, because the machine is slow, the message has only the id of the client.
func (s *site) runNaming(holder string, args ...string) result {
	s.t.Helper()
	var r result
	for range 5 {
		if r = s.run(args...); strings.Contains(r.stderr, holder) {
			return r
		}
	}
	return r
}

func call(t *testing.T, environ []string, args ...string) result {
	t.Helper()
	return begin(t, t.Context(), strings.NewReader(""), environ, args...).wait()
}

// calling is a call of run under way.
type calling struct {
	t              *testing.T
	stdout, stderr buffer
	code           chan int
}

func begin(t *testing.T, ctx context.Context, stdin io.Reader, environ []string, args ...string) *calling {
	c := &calling{t: t, code: make(chan int, 1)}
	c.stdout.written = make(chan struct{}, 1)
	go func() {
		c.code <- run(ctx, args, output.Environment{Stdin: stdin, Stdout: &c.stdout, Stderr: &c.stderr, Environ: environ})
	}()
	return c
}

// ready waits until the command has written something.
func (c *calling) ready() {
	c.t.Helper()
	select {
	case <-c.stdout.written:
	case code := <-c.code:
		c.t.Fatalf("ended with status %d before the command was ready: %s", code, c.stderr.String())
	}
}

func (c *calling) wait() result {
	c.t.Helper()
	select {
	case code := <-c.code:
		return result{code, c.stdout.String(), c.stderr.String()}
	case <-time.After(30 * time.Second):
		c.t.Fatalf("did not end: %s", c.stderr.String())
		return result{}
	}
}

// buffer is what standard output and error are to several writers.
type buffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	written chan struct{}
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.written <- struct{}{}:
	default:
	}
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// locker is another client of the store.
func (s *site) locker(note string) *holdfast.Locker {
	s.t.Helper()
	return holdfast.New(s.backend(), &holdfast.Options{Note: note})
}

// backend returns a store of another client.
func (s *site) backend() *redishold.Backend {
	s.t.Helper()
	conn, err := rueidisconn.Open(s.t.Context(), s.url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	return redishold.New(conn, nil)
}

// hold holds name as another client until the test ends.
func (s *site) hold(name string) {
	s.t.Helper()
	lock, err := s.locker("ci-runner-7@build:4121").TryLock(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = lock.Unlock() })
}

// mustBeFree fails the test if somebody holds name.
func (s *site) mustBeFree(name string) {
	s.t.Helper()
	if s.server.Exists(name) {
		s.t.Errorf("lock %q is still held", name)
	}
}

func (r result) want(t *testing.T, code int, stderr ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("got status %d, want %d; stderr: %s", r.code, code, r.stderr)
	}
	for _, part := range stderr {
		if !strings.Contains(r.stderr, part) {
			t.Errorf("got stderr %q, want it to contain %q", r.stderr, part)
		}
	}
	if len(stderr) == 0 && r.stderr != "" {
		t.Errorf("got stderr %q, want none", r.stderr)
	}
}

func TestRunReturnsTheCommandsStatus(t *testing.T) {
	s := newSite(t)
	s.run("run", "job", "true").want(t, 0)
	s.run("run", "job", "--", "sh", "-c", "exit 7").want(t, 7)
	s.run("run", "job", "sh", "-c", "kill -KILL $$").want(t, 128+9)
	s.run("run", "job", "sh", "-c", "kill -TERM $$").want(t, 128+15)
	s.run("run", "job", "no-such-command-anywhere").want(t, 127, "no-such-command-anywhere")
	s.run("run", "job", os.TempDir()).want(t, 126, os.TempDir())
	s.mustBeFree("job")
}

func TestRunPassesStandardStreams(t *testing.T) {
	s := newSite(t)
	got := begin(t, t.Context(), strings.NewReader("input"), s.environ,
		"run", "job", "--", "sh", "-c", "cat; echo problem >&2").wait()
	if want := (result{0, "input", "problem\n"}); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestRunFlagsEndAtTheCommand(t *testing.T) {
	s := newSite(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "job", "echo", "-n", "-v", "--", "x"}, "-v -- x"},
		{[]string{"run", "job", "--", "echo", "-n", "--help"}, "--help"},
		{[]string{"run", "-n", "job", "echo", "a"}, "a\n"},
		{[]string{"run", "job", "-n", "echo", "a"}, "a\n"},
		{[]string{"run", "job", "-w", "1m", "--reason", "because", "--", "echo", "--"}, "--\n"},
		{[]string{"run", "--", "job", "echo", "a"}, "a\n"},
		{[]string{"run", "job", "--shell", "echo $((1+1)) | cat"}, "2\n"},
	} {
		got := s.run(test.args...)
		if got.code != 0 || got.stdout != test.want {
			t.Errorf("%q: got %d, %q, %q, want %q", test.args, got.code, got.stdout, got.stderr, test.want)
		}
	}
	if help := s.run("run", "job", "--help"); help.code != 0 || !strings.Contains(help.stdout, "--at-least") {
		t.Errorf("help after NAME: got %d, %q", help.code, help.stdout)
	}
}

func TestRunTellsTheCommandOfItsLock(t *testing.T) {
	s := newSite(t)
	before := time.Now().Add(-time.Second)
	s.environ = append(s.environ, "HOLDFAST_NAME=outer", "MINE=kept")
	got := s.run("run", "deploy/prod", "-t", "20s", "--reason", "release 7", "--", "env")
	got.want(t, 0)
	env := map[string]string{}
	for line := range strings.Lines(got.stdout) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[name] = value
	}
	for name, want := range map[string]string{
		"HOLDFAST_NAME": "deploy/prod", "HOLDFAST_LEASE_MS": "20000", "HOLDFAST_BACKEND": "redis", "MINE": "kept",
	} {
		if env[name] != want {
			t.Errorf("%s: got %q, want %q", name, env[name], want)
		}
	}
	if token, err := strconv.ParseUint(env["HOLDFAST_TOKEN"], 10, 64); err != nil || token == 0 {
		t.Errorf("got token %q (%v), want a number", env["HOLDFAST_TOKEN"], err)
	}
	if holder := env["HOLDFAST_HOLDER"]; !strings.HasPrefix(holder, "env@") || !strings.HasSuffix(holder, " (release 7)") {
		t.Errorf("got holder %q", holder)
	}
	at, err := time.Parse(time.RFC3339, env["HOLDFAST_ACQUIRED_AT"])
	if err != nil || at.Before(before) || at.After(time.Now()) {
		t.Errorf("got acquired at %q (%v)", env["HOLDFAST_ACQUIRED_AT"], err)
	}
}

func TestRunHoldsTheLockMeanwhile(t *testing.T) {
	s := newSite(t)
	s.environ = append(s.environ, "HOLDFAST_PREFIX=app:")
	in, out := io.Pipe()
	outer := begin(t, t.Context(), in, s.environ, "run", "job", "--", "sh", "-c", "echo held; read line; exit 3")
	outer.ready()
	if !s.server.Exists("app:job") {
		t.Error("the lock is not held while the command runs, or not under its prefix")
	}
	s.run("run", "job", "-n", "true").want(t, 75, "is held by sh@")
	out.Close()
	outer.wait().want(t, 3)
	s.mustBeFree("app:job")
	s.run("run", "job", "-n", "true").want(t, 0)
}

func TestRunBusy(t *testing.T) {
	s := newSite(t)
	s.hold("deploy/prod")
	ran := filepath.Join(t.TempDir(), "ran")
	command := []string{"--", "touch", ran}
	busy := []string{ // after some seconds the message also says for how long
		`holdfast: lock "deploy/prod" is held by ci-runner-7@build:4121`,
		"lease ends in ",
	}
	for _, test := range []struct {
		flags  []string
		code   int
		stderr []string
	}{
		{[]string{"-n"}, 75, busy},
		{[]string{"--nonblock", "-E", "3"}, 3, busy},
		{[]string{"-n", "-E", "0"}, 0, busy},
		{[]string{"-n", "--skip-ok"}, 0, nil},
		{[]string{"-n", "--skip-ok", "-v"}, 0, []string{"skipped"}},
		{[]string{"-w", "500ms"}, 75, busy},
		{[]string{"-w", "500ms", "--skip-ok"}, 0, nil},
	} {
		args := append(append([]string{"run", "deploy/prod"}, test.flags...), command...)
		holder := strings.Join(test.stderr[:min(len(test.stderr), 1)], "")
		s.runNaming(holder, args...).want(t, test.code, test.stderr...)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran although the lock was held")
	}
}

// A hash that is no lock is not waited for: nothing would end that.
func TestRunOnDataThatIsNoLock(t *testing.T) {
	s := newSite(t)
	s.server.HSet("other", "a", "b")
	for _, flags := range [][]string{nil, {"-n"}, {"--fair"}, {"--shared"}} {
		s.run(append(append([]string{"run", "other"}, flags...), "--", "true")...).want(t, 64, `"other"`, "the store has a hash under that name", "choose another name")
	}
}

func TestRunWaits(t *testing.T) {
	s := newSite(t)
	lock, err := s.locker("first").TryLock(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	waiting := begin(t, t.Context(), strings.NewReader(""), s.environ, "run", "job", "--", "echo", "mine")
	select {
	case code := <-waiting.code:
		t.Fatalf("did not wait, but ended with status %d", code)
	case <-time.After(100 * time.Millisecond):
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	waiting.wait().want(t, 0)
}

func TestRunStoreTrouble(t *testing.T) {
	path := "PATH=" + os.Getenv("PATH")
	call(t, []string{path}, "run", "job", "--url", "redis://127.0.0.1:1", "true").want(t, 69, "127.0.0.1:1")
	call(t, []string{path}, "run", "job", "true").want(t, 64, "--url", "HOLDFAST_URL")
	call(t, []string{path, "REDIS_URL=ftp://x"}, "run", "job", "true").want(t, 64, "ftp")
	call(t, []string{path, "REDIS_URL=127.0.0.1:1"}, "run", "job", "true").want(t, 69, "127.0.0.1:1") // as a URL of Redis
	call(t, []string{path, "REDIS_URL=127.0.0.1:port"}, "run", "job", "true").want(t, 64, "redis://")

	s := newSite(t)
	s.server.RequireAuth("correct")
	s.run("run", "job", "true").want(t, 77, "NOAUTH")
	s.server.RequireUserAuth("app", "correct")
	s.run("run", "job", "--url", "redis://app:wrong@"+s.server.Addr(), "true").want(t, 77, "WRONGPASS")
}

func TestRunTakesThePasswordFromTheEnvironment(t *testing.T) {
	s := newSite(t)
	s.server.RequireAuth("s3cret")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"REDISCLI_AUTH=s3cret", "HOLDFAST_PASSWORD_FILE=" + file} {
		call(t, append([]string{variable}, s.environ...), "run", "job", "true").want(t, 0)
	}
	call(t, append([]string{"HOLDFAST_PASSWORD_FILE=" + file + ".absent"}, s.environ...), "run", "job", "true").
		want(t, 64, "HOLDFAST_PASSWORD_FILE")
}

func TestRunNeverPrintsThePassword(t *testing.T) {
	s := newSite(t)
	s.server.RequireUserAuth("app", "s3cret")
	addr := s.server.Addr()
	for _, test := range []struct {
		url  string
		code int
	}{
		{"redis://app:s3cret@" + addr, 0},
		{"redis://other:s3cret@" + addr, 77},
		{"redis://app:s3cret@127.0.0.1:1", 69},
		{"redis://app:s3cret@" + addr + "/nodb", 64},
		{"redis://app:s3cret%zz@" + addr, 64},
		{"redis://app:s3cret/x@" + addr, 64},
		{"redis://app:s3cret@" + addr + "?unknown=1", 64},
		{"foo://app:s3cret@" + addr, 64},
	} {
		for _, how := range []string{"flag", "environment"} {
			args, environ := []string{"run", "-v", "job", "--url", test.url, "true"}, s.environ
			if how == "environment" {
				args, environ = []string{"run", "-v", "job", "true"}, append(environ, "HOLDFAST_URL="+test.url)
			}
			got := call(t, environ, args...)
			if got.code != test.code {
				t.Errorf("%s by %s: got status %d, want %d: %s", test.url, how, got.code, test.code, got.stderr)
			}
			if strings.Contains(got.stderr+got.stdout, "s3cret") {
				t.Errorf("%s by %s: the password was printed: %s", test.url, how, got.stderr)
			}
			if warned := strings.Contains(got.stderr, "can read the password"); warned != (how == "flag" && test.code != 64) && test.code != 64 {
				t.Errorf("%s by %s: got warning %v", test.url, how, warned)
			}
		}
	}
}

// 0 does not wait, on the command line and in the configuration; without a time there is no limit. A
// time of the configuration does not change -n.
func TestRunWaitOfNoTime(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	none, some := configure(t, "none.yaml", "lock: {wait: 0s}\n"), configure(t, "some.yaml", "lock: {wait: 10m}\n")
	for _, flags := range []string{"run -w 0", "run --wait 0s", "hold -w 0", "run --config " + none, "run -n --config " + some} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		args := append(strings.Fields(flags), "job")
		if args[0] == "run" {
			args = append(args, "true")
		}
		got := begin(t, ctx, strings.NewReader(""), s.environ, args...).wait()
		cancel()
		if got.code != 75 || !strings.Contains(got.stderr, "is held by") || strings.Contains(got.stderr, "waiting") {
			t.Errorf("%s: got %+v, want that it does not wait", flags, got)
		}
	}
	for _, args := range [][]string{{"run", "job", "true"}, {"elect", "--config", none, "job", "true"}} {
		ctx, cancel := context.WithCancel(t.Context())
		c := begin(t, ctx, strings.NewReader(""), s.environ, args...)
		await.Until(t, 20*time.Second, "it waits", func() bool { return strings.Contains(c.stderr.String(), "waiting for lock") })
		cancel()
		c.wait()
	}
}

func TestRunUsage(t *testing.T) {
	s := newSite(t)
	for _, test := range []struct {
		args string // of run
		want string
	}{
		{"", "no lock named"},
		{"job", "no command to run"},
		{"job --", "no command to run"},
		{"-- true", "name of the lock is missing before --; use: holdfast run NAME -- true"},
		{"-n -- sh -c true", "use: holdfast run NAME -- sh -c true"},
		{"--permits null job true", `--permits: "null" is no number`},
		{"--permits 99999999999999999999 job true", `--permits: "99999999999999999999" is too large`},
		{"--fair=yes job true", `--fair: "yes" is neither true nor false`},
		{"--unknown job true", "--unknown"},
		{"job --unknown true", "--unknown"},
		{"-n -w 3s job true", "give only one of them"},
		{"-w -3s job true", "negative"},
		{"-w five job true", "such as 30s"},
		{"--at-least -1s job true", "negative"},
		{"--at-least 1m --max-hold 30s job true", "--max-hold 30s"},
		{"--at-least 1m --max-hold 1m job true", "with --max-hold 1m0s, the lock is held for 57s"},
		{"--max-hold -1s job true", "negative"},
		{"--max-hold 10ms job true", "--max-hold 10ms: use 100ms"},
		{"-t 1ms job true", "too short"},
		{"-t -1s job true", "negative"},
		{"--kill-after -1s job true", "negative"},
		{"--kill-after 17s job true", "use less than 17s"},
		{"-t 10s --kill-after 6s job true", "--kill-after 6s is too long"},
		{"-E 256 job true", "0 to 255"},
		{"-E -1 job true", "negative"},
		{"--lost-exit-code 0 job true", "1 to 255"},
		{"--skip-ok -E 3 job true", "give only one of"},
		{"--no-renew --at-least 1m job true", "longer --ttl"},
		{"--no-renew --max-hold 1m job true", "longer --ttl"},
		{"--signal NOSUCH job true", "NOSUCH"},
		{"--shell job echo a", "quotes"},
	} {
		s.run(append([]string{"run"}, strings.Fields(test.args)...)...).want(t, 64, test.want)
	}
	s.run("run", "", "true").want(t, 64, "empty")
	s.run("run", "job").want(t, 64, "use: holdfast run NAME")
	s.run("elect", "lead").want(t, 64, "use: holdfast elect NAME")
	s.run("frobnicate").want(t, 64, "frobnicate")
	s.run("version", "x").want(t, 64, "no arguments")
	for _, variable := range []string{"HOLDFAST_TTL=soon", "HOLDFAST_LOG_LEVEL=loud", "HOLDFAST_LOG_FORMAT=xml"} {
		name, _, _ := strings.Cut(variable, "=")
		call(t, append([]string{variable}, s.environ...), "run", "job", "true").want(t, 64, name)
	}
}

func TestRunDefaults(t *testing.T) {
	s := newSite(t)
	s.environ = append(s.environ, "HOLDFAST_TTL=3s") // too short for a kill-after of 10s
	got := s.run("run", "job", "--", "sh", "-c", "echo $HOLDFAST_LEASE_MS")
	if got.code != 0 || got.stdout != "3000\n" {
		t.Errorf("got %+v", got)
	}
	got = s.run("run", "-t", "4s", "job", "--", "sh", "-c", "echo $HOLDFAST_LEASE_MS")
	if got.code != 0 || got.stdout != "4000\n" {
		t.Errorf("got %+v", got)
	}
}

func TestRunStopsTheCommandWhenTheLockIsLost(t *testing.T) {
	s := newSite(t)
	c := begin(t, t.Context(), strings.NewReader(""), s.environ,
		"run", "-t", "3s", "job", "--", "sh", "-c", "echo ready; sleep 100 & sleep 100")
	c.ready()
	s.server.Del("job")
	c.wait().want(t, 79, `lock "job" lost: the key is gone from the server; `, "stopping the command")
}

func TestRunReleaseThatFindsTheLockLost(t *testing.T) {
	s := newSite(t)
	in, out := io.Pipe()
	c := begin(t, t.Context(), in, s.environ, "run", "job", "--", "sh", "-c", "echo ready; read line; exit 3")
	c.ready()
	s.server.Del("job")
	out.Close()
	c.wait().want(t, 79, `lock "job" lost`)
}

func TestRunMaxHold(t *testing.T) {
	for name, test := range map[string]struct {
		flags string
		code  int
		least time.Duration // how long the command runs
	}{
		"less than the lease": {"--max-hold 2s", 79, 0},
		"the status":          {"--max-hold 2s --lost-exit-code 9", 9, 0},
		"with --no-renew":     {"--max-hold 2s --no-renew", 79, 0},
		"renewed until then":  {"--max-hold 5s --ttl 3s", 79, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, began := newSite(t), await.NewWatch(t)
			args := append(append([]string{"run"}, strings.Fields(test.flags)...), "job", "--", "sleep", "100")
			s.run(args...).want(t, test.code, "stopping the command ", "s before "+strings.Join(args[1:3], " ")+", so that it has ended by then")
			if took := began.Took(); time.Now().Before(began.Began.Add(test.least)) || took > 60*time.Second {
				t.Errorf("the command was stopped after %v, want %v at least", took, test.least)
			}
			s.mustBeFree("job")
		})
	}
}

func TestRunNoRenewStopsTheCommandBeforeTheLeaseEnds(t *testing.T) {
	s := newSite(t)
	began := await.NewWatch(t)
	s.run("run", "-t", "3s", "--no-renew", "job", "--", "sleep", "100").want(t, 79, "--no-renew does not renew it")
	if took := began.Took(); took > 10*time.Second {
		t.Errorf("the command ended after %s", took)
	}
}

func TestRunKillsWhatIgnoresTheSignalBeforeTheLeaseEnds(t *testing.T) {
	s := newSite(t)
	began := await.NewWatch(t)
	s.run("run", "-t", "3s", "--no-renew", "job", "--", "sh", "-c", `trap "" TERM; while :; do sleep 0.01; done`).
		want(t, 79, "--no-renew does not renew it")
	// That the lease runs until then, a real server shows: see internal/e2e.
	if took := began.Took(); time.Now().Before(began.Began.Add(800*time.Millisecond)) || took > 10*time.Second {
		t.Errorf("the command ended after %s, want 810ms, when the lock counts as lost", took)
	}
}

// A store that keeps the name is left alone with it; for another kind of lock run waits.
func TestRunAtLeast(t *testing.T) {
	s := newSite(t)
	began := time.Now()
	s.run("run", "--at-least", "1h", "job", "--", "sh", "-c", "exit 3").want(t, 3)
	s.run("run", "-n", "job", "--", "true").want(t, 75, "taken until")
	if ttl := s.server.TTL("job"); ttl > time.Hour || time.Now().Add(ttl).Before(began.Add(time.Hour-time.Second)) {
		t.Errorf("the name stays taken for %v, want an hour from the grant", ttl)
	}
	began = time.Now()
	s.run("run", "-v", "--fair", "--at-least", "400ms", "fair", "--", "sh", "-c", "exit 3").want(t, 3, "run holds the lock until the time of --at-least is over")
	if released := time.Now(); released.Before(began.Add(400 * time.Millisecond)) {
		t.Errorf("released after %s, want 400ms", released.Sub(began))
	}
	s.mustBeFree("fair")
}

func TestRunContextEndsTheCommand(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := begin(t, ctx, strings.NewReader(""), s.environ, "run", "job", "--", "sh", "-c", "echo ready; exec sleep 100")
	c.ready()
	cancel()
	c.wait().want(t, 128+15)
	s.mustBeFree("job")
}

func TestMessagesAsJSON(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	s.environ = append(s.environ, "HOLDFAST_LOG_FORMAT=json")
	s.run("run", "-n", "job", "true").want(t, 75, `"level":"ERROR"`, `"msg":"lock \"job\" is held by`)
}

func TestValuesAreCompleted(t *testing.T) {
	for args, want := range map[string]string{
		"doctor --fail-on ":      "note warning danger never",
		"ls --sort ":             "name kind holder lease waiters",
		"status --layout ":       "redisson plain timestamp",
		"run --layout ":          "redisson plain timestamp",
		"run --signal ":          "TERM INT HUP QUIT USR1 USR2 KILL",
		"elect --signal ":        "TERM INT HUP QUIT USR1 USR2 KILL",
		"elect --step-down-on ":  "USR1 USR2",
		"force-unlock --layout ": "redisson plain timestamp",
	} {
		got := call(t, nil, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		words := strings.Fields(strings.Split(got.stdout, ":")[0])
		if got.code != 0 || strings.Join(words, " ") != want {
			t.Errorf("%s: got %q, want %q", args, got.stdout, want)
		}
	}
}

func TestVersionAndCompletion(t *testing.T) {
	if got := call(t, nil, "version"); got.code != 0 || !strings.HasPrefix(got.stdout, "holdfast ") {
		t.Errorf("version: got %+v", got)
	}
	if got := call(t, nil, "--version"); got.code != 0 || got != call(t, nil, "version") {
		t.Errorf("--version: got %+v", got)
	}
	if got := call(t, nil, "completion", "bash"); got.code != 0 || !strings.Contains(got.stdout, "complete") {
		t.Errorf("completion: got %d, %s", got.code, got.stderr)
	}
	call(t, nil, "completion", "tcsh").want(t, 64, "tcsh", "completion --help")
	if got := call(t, nil, "completion"); got.code != 0 || !strings.Contains(got.stdout, "powershell") {
		t.Errorf("completion: got %+v", got)
	}
	if got := call(t, nil); got.code != 0 || !strings.Contains(got.stdout, "run ") {
		t.Errorf("help: got %+v", got)
	}
}
