//go:build unix

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
)

// server is a real Redis, on a socket in a folder of its own.
type server struct{ socket string }

// startServer starts redis-server, or the program that HOLDFAST_REDIS_SERVER names.
// Without redis-server a test is skipped, but not in CI.
func startServer(t *testing.T) server {
	t.Helper()
	chosen := os.Getenv("HOLDFAST_REDIS_SERVER")
	binary, err := exec.LookPath(cmp.Or(chosen, "redis-server"))
	if err != nil && (chosen != "" || os.Getenv("CI") != "") {
		t.Fatalf("the server is missing: %v", err)
	}
	if err != nil {
		t.Skipf("redis-server is missing: %v", err)
	}
	dir, err := os.MkdirTemp("", "holdfast") // short: a socket's path has about a hundred bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := server{socket: filepath.Join(dir, "s")}
	cmd := exec.Command(binary, "--port", "0", "--unixsocket", s.socket, "--dir", dir, "--save", "", "--appendonly", "no")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	await.Until(t, 10*time.Second, binary+" answers", func() bool {
		conn, err := net.Dial("unix", s.socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return s
}

func (s server) url() string { return "unix://" + s.socket }

// realSite is a site with a real Redis.
func realSite(t *testing.T) *site {
	t.Helper()
	return &site{t: t, url: startServer(t).url(), environ: nil}
}

// onBoth runs a test on the stand-in and on a real server.
func onBoth(t *testing.T, test func(*testing.T, *site)) {
	t.Run("StandIn", func(t *testing.T) { test(t, newSite(t)) })
	t.Run("Redis", func(t *testing.T) {
		s := realSite(t)
		s.environ = []string{"PATH=" + os.Getenv("PATH"), "HOLDFAST_URL=" + s.url}
		test(t, s)
	})
}

// objects returns what a command has printed as JSON, one object for each line.
func objects(t *testing.T, r result) []map[string]any {
	t.Helper()
	var all []map[string]any
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	for {
		var one map[string]any
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in %q; stderr: %s", err, r.stdout, r.stderr)
		}
		all = append(all, one)
	}
}

func (s *site) take(take func() (*holdfast.Lock, error)) *holdfast.Lock {
	s.t.Helper()
	lock, err := take()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = lock.Unlock() })
	return lock
}

// holdOfEachKind takes a lock of each kind.
func (s *site) holdOfEachKind() {
	ctx, l := s.t.Context(), s.locker("billing@build:4121")
	s.take(func() (*holdfast.Lock, error) { return l.TryLock(ctx, "a/mutex") })
	s.take(func() (*holdfast.Lock, error) { return l.RWMutex("b/read").Read.TryLock(ctx) })
	s.take(func() (*holdfast.Lock, error) { return l.RWMutex("b/write").Write.TryLock(ctx) })
	s.take(func() (*holdfast.Lock, error) { return l.Semaphore("c/permits", 3).TryAcquire(ctx) })
}

func TestListShowsEveryKind(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		s.holdOfEachKind()
		got := s.run("ls")
		got.want(t, 0)
		for _, want := range []string{"NAME", "a/mutex", "mutex", "billing@build:4121", "b/read", "read", "b/write", "write", "1 of 3"} {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("got %s, want it to contain %q", got.stdout, want)
			}
		}
		if got := names(t, s.run("ls", "--json")); len(got) != 4 {
			t.Errorf("got %v, want 4 names", got)
		}
		if got := fmt.Sprint(names(t, s.run("ls", "--json", "--sort", "name", "b/"))); got != "[b/read b/write]" {
			t.Errorf("got %s", got)
		}
		if got := fmt.Sprint(names(t, s.run("ls", "--json", "*/[mw]*"))); got != "[a/mutex b/write]" && got != "[b/write a/mutex]" {
			t.Errorf("got %s", got)
		}
		if got := fmt.Sprint(names(t, s.run("ls", "--json", "--sort", "name", "--limit", "1"))); got != "[a/mutex]" {
			t.Errorf("got %s", got)
		}
	})
}

func names(t *testing.T, r result) []any {
	var all []any
	for _, o := range objects(t, r) {
		all = append(all, o["name"])
	}
	return all
}

// A semaphore's lease is that of the permits that are out, not that of its counter,
// which has none.
func TestLeaseOfASemaphore(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		l := s.locker("x")
		s.take(func() (*holdfast.Lock, error) {
			return l.Semaphore("permits", 3).TryAcquire(t.Context(), holdfast.FixedLease(20*time.Second))
		})
		s.take(func() (*holdfast.Lock, error) {
			return l.Semaphore("permits", 3).TryAcquire(t.Context(), holdfast.FixedLease(time.Hour))
		})
		if got := s.run("ls"); strings.Contains(got.stdout, "forever") || !strings.Contains(got.stdout, "20s") && !strings.Contains(got.stdout, "19s") {
			t.Errorf("got %s, want a lease of 20s", got.stdout)
		}
		for _, command := range [][]string{{"ls", "--json"}, {"inspect", "--json", "permits"}, {"status", "--json", "permits"}} {
			if ms := objects(t, s.run(command...))[0]["remaining_ms"].(float64); ms <= 10_000 || ms > 20_000 {
				t.Errorf("%v: got a lease of %v ms, want that of the permit that ends first", command, ms)
			}
		}
		got := s.run("status", "permits")
		got.want(t, 0)
		if !strings.HasPrefix(got.stdout, "permits: 1 permit free, 2 held by ") || !strings.Contains(got.stdout, "lease ends in") {
			t.Errorf("got %s, want first that a permit is free", got.stdout)
		}
	})
}

func TestListSaysThatItIsIncomplete(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		l := s.locker("x")
		for i := range 30 {
			s.take(func() (*holdfast.Lock, error) { return l.TryLock(t.Context(), fmt.Sprint("lock-", i)) })
		}
		s.run("ls", "--keys", "10").want(t, 1, "incomplete", "--keys")
		s.run("ls", "--timeout", "1ns").want(t, 1, "incomplete", "--timeout")
		s.run("ls", "--limit", "3", "--sort", "name").want(t, 0, "27 more")
		first := s.run("ls", "--limit", "3")
		first.want(t, 0, "there are more: these are the first that the scan found; --sort name reads all")
		if got := strings.Count(first.stdout, "lock-"); got != 3 {
			t.Errorf("got %d locks, want 3: %s", got, first.stdout)
		}
		if got := s.run("ls", "--limit", "30"); strings.Count(got.stdout, "lock-") != 30 || got.stderr != "" {
			t.Errorf("got %+v, want all 30 locks without a message", got)
		}
		if got := names(t, s.run("ls", "--json", "--limit", "3")); len(got) != 3 {
			t.Errorf("got %v, want 3 names", got)
		}
	})
}

func TestListOfNothing(t *testing.T) {
	s := newSite(t)
	if err := s.server.Set("stock:42", "of another library"); err != nil {
		t.Fatal(err)
	}
	s.run("ls").want(t, 0, "nothing is locked in Redisson's layout; --layout plain lists")
	if got := s.run("inspect", "stock:42"); !strings.Contains(got.stdout, "with --layout plain a string is a lock") {
		t.Errorf("got %+v, want advice about the layout", got)
	}
	if got := s.run("ls", "--layout", "plain"); !strings.Contains(got.stdout, "stock:42") {
		t.Errorf("got %+v, want the lock", got)
	}
	s.server.Del("stock:42")
	if got := s.run("ls", "--json"); got != (result{}) {
		t.Errorf("got %+v, want nothing", got)
	}
}

// Names and notes are anybody's: a terminal must not obey them.
func TestListQuotesWhatIsHostile(t *testing.T) {
	s := newSite(t)
	name := "evil\x1b[2J\nname\t\xff"
	l := s.locker("note\x1b]0;title\a")
	s.take(func() (*holdfast.Lock, error) { return l.TryLock(t.Context(), name) })
	for _, args := range [][]string{{"ls"}, {"ls", "--wide"}, {"inspect", name}, {"status", name}, {"tail", "--count", "1"}} {
		got := s.run(args...)
		if strings.ContainsAny(got.stdout+got.stderr, "\x1b\a\t") || !strings.Contains(got.stdout, `evil\x1b[2J\nname`) {
			t.Errorf("%q: got %q %q", args, got.stdout, got.stderr)
		}
	}
	o := objects(t, s.run("ls", "--json"))
	if len(o) != 1 || o[0]["name_base64"] == nil {
		t.Errorf("got %v, want the bytes of the name", o)
	}
}

func TestInspect(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		s.run("inspect", "job").want(t, 0)
		if got := s.run("inspect", "job"); !strings.Contains(got.stdout, "free") {
			t.Errorf("got %s", got.stdout)
		}
		s.hold("job")
		got := s.run("inspect", "job")
		for _, want := range []string{"mutex", "ci-runner-7@build:4121", "owner", "count       1", "key         job (hash"} {
			if !strings.Contains(strings.Join(strings.Fields(got.stdout), " "), strings.Join(strings.Fields(want), " ")) {
				t.Errorf("got %s, want it to contain %q", got.stdout, want)
			}
		}
		o := objects(t, s.run("inspect", "--json", "job"))
		if len(o) != 1 || o[0]["kind"] != "mutex" || len(o[0]["keys"].([]any)) != 1 || o[0]["version"] != 1.0 {
			t.Errorf("got %v", o)
		}
	})
}

// What a client says of a hold and of a wait that last is shown, and a token that it
// reported ends the hold.
func TestLookShowsSinceWhenAndWhoWaits(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		backend := s.backend()
		lock := s.take(func() (*holdfast.Lock, error) {
			return holdfast.New(backend, &holdfast.Options{Note: "ci-7"}).TryLock(t.Context(), "job")
		})
		h := objects(t, s.run("inspect", "--json", "job"))[0]["holds"].([]any)[0].(map[string]any)
		owner := h["owner"].(string)
		if h["token"] != nil || h["held_ms"] != nil {
			t.Errorf("got %v before anybody has told", h)
		}
		client, _, _ := strings.Cut(owner, ":")
		if err := backend.Report(t.Context(), driver.Report{
			Client: client, Note: "ci-7", TTL: 30 * time.Second,
			Holds: []driver.ReportedHold{{Name: "job", Owner: owner, Token: lock.Token(), HeldFor: 3*time.Minute + 12*time.Second}},
			Waits: []driver.ReportedWait{{Name: "job", Waited: 90 * time.Second, Count: 4}},
		}); err != nil {
			t.Fatal(err)
		}
		token := strconv.FormatUint(lock.Token(), 10)
		for command, want := range map[string][]string{
			"inspect":   {"held for 3m1", "token " + token, "waiting ", "(ci-7) for 1m3", "s, 4 goroutines"},
			"status":    {"(ci-7) for 3m1", ", lease ends in", "waiting: ", "(ci-7) for 1m3", "s, 4 goroutines"},
			"ls":        {"HELD", " 3m1"},
			"ls --wide": {"TOKEN", " " + token + " "},
		} {
			args := strings.Fields(command)
			if args[0] != "ls" {
				args = append(args, "job")
			}
			got := strings.Join(strings.Fields(s.run(args...).stdout), " ")
			for _, text := range want {
				if !strings.Contains(got, text) {
					t.Errorf("%s: got %s, want it to contain %q", command, got, text)
				}
			}
		}
		for _, command := range []string{"inspect", "status"} {
			o := objects(t, s.run(command, "--json", "job"))[0]
			hold, wait := o["holds"].([]any)[0].(map[string]any), o["waiters"].([]any)[0].(map[string]any)
			if o["waiting"].(float64) < 1 {
				t.Errorf("%s: got waiting %v while somebody waits", command, o["waiting"])
			}
			if ms := hold["held_ms"].(float64); ms < 192_000 || ms > 200_000 || hold["token"] != float64(lock.Token()) {
				t.Errorf("%s: got %v", command, hold)
			}
			if ms := wait["waited_ms"].(float64); ms < 90_000 || ms > 98_000 || wait["count"] != 4.0 || wait["client"].(map[string]any)["note"] != "ci-7" {
				t.Errorf("%s: got %v", command, wait)
			}
		}
		s.run("run", "-n", "job", "true").want(t, 75, `lock "job" is held by ci-7 for 3m1`)
		s.run("force-unlock", "job", "--reason", "x", "--yes", "--token", "7").want(t, 1, `no hold of "job" has the token 7, which is held by`, "nothing was done")
		s.run("force-unlock", "job", "--reason", "x", "--yes", "--token", token).want(t, 0)
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the holder got %v", err)
		}
	})
}

// A lock as Redisson for Java writes it.
func TestRedissonsLockIsShownAsSuch(t *testing.T) {
	s := newSite(t)
	const client = "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11"
	s.server.HSet("job", client+":42", "2")
	s.server.SetTTL("job", 30*time.Second)
	for _, command := range []string{"ls", "inspect"} {
		args := []string{command}
		if command == "inspect" {
			args = append(args, "job")
		}
		if got := s.run(args...); !strings.Contains(got.stdout, "Redisson client "+client+" thread 42") {
			t.Errorf("%s: got %s", command, got.stdout)
		}
	}
	s.run("force-unlock", "job", "--reason", "test", "--yes", "--holder", client+":42").want(t, 0)
	s.mustBeFree("job")
}

// A lock of a program with a prefix, seen without it.
func TestHolderBehindAPrefixIsNamed(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		in, out := io.Pipe()
		held := begin(t, t.Context(), in, s.environ, "hold", "px", "--prefix", "prod:", "--reason", "nightly")
		held.ready()
		for _, args := range [][]string{{"ls", "prod:"}, {"inspect", "prod:px"}} {
			if got := s.run(args...); !strings.Contains(got.stdout, "nightly") || strings.Contains(got.stdout, "Redisson") {
				t.Errorf("%v: got %s", args, got.stdout)
			}
		}
		out.Close()
		held.wait().want(t, 0)
	})
}

func TestStatus(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		got := s.run("status")
		got.want(t, 0)
		if !strings.Contains(got.stdout, "layout      redisson") {
			t.Errorf("got %s", got.stdout)
		}
		o := objects(t, s.run("status", "--json", "--prefix", "app:"))
		if len(o) != 1 || o[0]["prefix"] != "app:" || o[0]["latency_ms"] == nil {
			t.Errorf("got %v", o)
		}
		s.run("status", "job").want(t, 0)
		if got := output.EndText(admin.RemainingUnknown); got != "unknown" || output.LeaseText(admin.RemainingUnknown) != "unknown" {
			t.Errorf("got %q of a lease whose end is not told", got)
		}
		if got := output.EndText(-1); got != "never ends" {
			t.Errorf("got %q", got)
		}
		s.hold("job")
		if got := s.run("status", "job"); got.code != 75 || !strings.Contains(got.stdout, "(ci-runner-7@build:4121), lease ends in") {
			t.Errorf("got %+v", got)
		}
		if got := s.run("status", "-q", "job"); got != (result{code: 75}) {
			t.Errorf("got %+v, want status 75 and no word", got)
		}
	})
}

func TestForceUnlock(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		s.run("force-unlock", "job").want(t, 64, "--reason", "--holder or --token") // all that is missing, at once
		s.run("force-unlock", "job", "--reason", "x").want(t, 64, "not a terminal", "--holder or --token")
		s.run("force-unlock", "job", "--reason", "x", "--yes").want(t, 64, "--holder")
		s.run("force-unlock", "job", "--reason", "x", "--token", "null").want(t, 64, `--token: "null" is no number`)
		s.run("force-unlock", "job", "--reason", "x", "--token", "-1").want(t, 64, `--token: "-1" is negative`)
		s.run("force-unlock", "job", "--reason", "x", "--yes", "--holder", "a:1").want(t, 1, "nobody holds")
		lock := s.take(func() (*holdfast.Lock, error) { return s.locker("x").TryLock(t.Context(), "job") })
		s.run("force-unlock", "job", "--reason", "x", "--yes", "--holder", "a:1").want(t, 1, `"a:1" is no holder of "job", which is held by `, " (owner ", "); nothing was done")
		s.run("force-unlock", "job", "--reason", "x", "--yes", "--token", "7").want(t, 64, "--holder")
		for _, nobody := range []string{"--holder=", "--token=0"} { // as of a variable that is not set
			s.run("force-unlock", "job", "--reason", "x", "--yes", nobody).want(t, 64, "names no hold")
			s.run("force-unlock", "job", "--reason", "x", "--yes", nobody, "--holder=").want(t, 64, "names no hold")
			if err := lock.Err(); err != nil {
				t.Fatalf("%s: the holder got %v", nobody, err)
			}
			s.run("status", "-q", "job").want(t, 75)
		}
		owner := objects(t, s.run("inspect", "--json", "job"))[0]["holds"].([]any)[0].(map[string]any)["owner"].(string)

		got := s.run("force-unlock", "job", "--reason", "INC-1", "--yes", "--holder", owner)
		got.want(t, 0)
		if !strings.Contains(got.stdout, "(x) on \"job\"") {
			t.Errorf("got %s", got.stdout)
		}
		err := lock.Unlock()
		if !errors.Is(err, holdfast.ErrLost) || !strings.Contains(err.Error(), "INC-1") || !strings.Contains(err.Error(), string(driver.ReasonForced)) {
			t.Errorf("the holder got %v, want the reason", err)
		}
		s.run("status", "job").want(t, 0)
	})
}

// People copy the column HOLDER, or the process in it, rather than the owner.
func TestForceUnlockByTheNameOfTheHolder(t *testing.T) {
	s := newSite(t)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	process := fmt.Sprintf("holdfast@%s:%d", host, os.Getpid())
	for _, name := range []string{process, process + " (database maintenance)"} {
		ctx, cancel := context.WithCancel(t.Context())
		c := begin(t, ctx, strings.NewReader(""), s.environ, "hold", "job", "--ignore-stdin", "--reason", "database maintenance")
		c.ready()
		s.run("force-unlock", "job", "--reason", "x", "--holder", name+"0").want(t, 1, name+"0", "is no holder of")
		s.run("force-unlock", "job", "--reason", "x", "--holder", name).want(t, 0)
		s.mustBeFree("job")
		cancel()
		c.wait()
	}
}

func TestForceUnlockOfOneOfSeveralOfTheName(t *testing.T) {
	s := newSite(t)
	for range 2 {
		s.take(func() (*holdfast.Lock, error) { return s.locker("twin@vm:7").RWMutex("job").Read.TryLock(t.Context()) })
	}
	holds := objects(t, s.run("inspect", "--json", "job"))[0]["holds"].([]any)
	owners := []string{holds[0].(map[string]any)["owner"].(string), holds[1].(map[string]any)["owner"].(string)}
	name := holds[0].(map[string]any)["holder"].(string)
	s.run("force-unlock", "job", "--reason", "x", "--holder", name).want(t, 64, "2 holders that match", "(owner "+owners[0]+")", "(owner "+owners[1]+")")
	s.run("force-unlock", "job", "--reason", "x", "--holder", owners[0]).want(t, 0)
	s.run("force-unlock", "job", "--reason", "x", "--holder", name).want(t, 0)
	s.mustBeFree("job")
}

// Where nobody can be asked, naming the hold is enough: it is the one that is ended,
// or none is. A call that names no hold is refused.
func TestForceUnlockWithoutATerminal(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		locker := s.locker("x")
		lock := s.take(func() (*holdfast.Lock, error) { return locker.TryLock(t.Context(), "job") })
		s.run("force-unlock", "job", "--reason", "x", "--yes").want(t, 64, "the hold to end", "--holder")
		s.run("force-unlock", "job", "--reason", "x", "--holder", "a:1").want(t, 1, "nothing was done")
		owner := objects(t, s.run("inspect", "--json", "job"))[0]["holds"].([]any)[0].(map[string]any)["owner"].(string)
		s.run("force-unlock", "job", "--reason", "INC-1", "--holder", owner).want(t, 0)
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the holder got %v", err)
		}
	})
}

func TestForceUnlockByTokenWithoutATerminal(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		backend := s.backend()
		lock := s.take(func() (*holdfast.Lock, error) { return holdfast.New(backend, nil).TryLock(t.Context(), "job") })
		owner := objects(t, s.run("inspect", "--json", "job"))[0]["holds"].([]any)[0].(map[string]any)["owner"].(string)
		client, _, _ := strings.Cut(owner, ":")
		if err := backend.Report(t.Context(), driver.Report{ // as the client does after a few seconds
			Client: client, TTL: 30 * time.Second,
			Holds: []driver.ReportedHold{{Name: "job", Owner: owner, Token: lock.Token(), HeldFor: 5 * time.Second}},
		}); err != nil {
			t.Fatal(err)
		}
		token := strconv.FormatUint(lock.Token(), 10)
		s.run("force-unlock", "job", "--reason", "x", "--token", token+"0").want(t, 1, "nothing was done")
		s.run("force-unlock", "job", "--reason", "x", "--token", token).want(t, 0)
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the holder got %v", err)
		}
	})
}

func TestTail(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		first := s.take(func() (*holdfast.Lock, error) { return s.locker("first").TryLock(t.Context(), "jobs/1") })
		c := begin(t, t.Context(), strings.NewReader(""), s.environ, "tail", "--json", "--every", "100ms", "--scan", "0s", "--count", "3", "jobs/")
		c.ready()
		if err := first.Unlock(); err != nil {
			t.Fatal(err)
		}
		await.Until(t, 20*time.Second, "tail says that it was released", func() bool { return strings.Contains(c.stdout.String(), "released") })
		s.take(func() (*holdfast.Lock, error) { return s.locker("second").TryLock(t.Context(), "jobs/1") })
		got := c.wait()
		got.want(t, 0)
		var said []string
		for _, o := range objects(t, got) {
			_, note, _ := strings.Cut(fmt.Sprint(o["holder"]), " ")
			said = append(said, fmt.Sprint(o["event"], " ", o["name"], " ", note))
		}
		if want := "held jobs/1 (first), released jobs/1 (first), acquired jobs/1 (second)"; strings.Join(said, ", ") != want {
			t.Errorf("got %v, want %s", said, want)
		}
	})
}

func TestTailTellsOfForceUnlock(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		s.take(func() (*holdfast.Lock, error) { return s.locker("first").TryLock(t.Context(), "jobs/1") })
		c := begin(t, t.Context(), strings.NewReader(""), s.environ, "tail", "--every", "100ms", "--scan", "0s", "--count", "2", "jobs/")
		c.ready()
		owner := objects(t, s.run("inspect", "jobs/1", "--json"))[0]["holds"].([]any)[0].(map[string]any)["owner"].(string)
		s.run("force-unlock", "jobs/1", "--reason", "runner 7 is gone", "--yes", "--holder", owner).want(t, 0)
		got := c.wait()
		got.want(t, 0)
		for _, want := range []string{"forced", "taken from", "(first)", ": runner 7 is gone (", "@"} {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("got %s, want it to contain %q", got.stdout, want)
			}
		}
	})
}

func TestLookStatuses(t *testing.T) {
	path := "PATH=" + os.Getenv("PATH")
	s := newSite(t)
	for _, args := range []string{"ls", "inspect job", "status", "status job", "tail", "force-unlock job --reason x --yes --holder a:1"} {
		words := strings.Fields(args)
		call(t, []string{path, "HOLDFAST_URL=redis://127.0.0.1:1"}, words...).want(t, 69, "127.0.0.1:1")
		call(t, []string{path}, words...).want(t, 64, "no store is named")
		s.run(append(words, "--no-such-flag")...).want(t, 64, "--no-such-flag")
	}
	s.server.RequireAuth("right")
	for _, args := range []string{"ls", "inspect job", "status", "tail"} {
		s.run(strings.Fields(args)...).want(t, 77, "NOAUTH")
	}
	s.server.RequireAuth("")
	if err := s.server.Set("data", "some text that is no lock"); err != nil {
		t.Fatal(err)
	}
	if got := s.run("status", "data"); got.code != 1 || !strings.Contains(got.stdout, "not a lock") {
		t.Errorf("got %+v", got)
	}
	s.run("inspect").want(t, 64, "the name of one lock")
	s.run("ls", "a", "b").want(t, 64, "one pattern")
	s.run("ls", "[").want(t, 64, "pattern")
	s.run("ls", "--sort", "age").want(t, 64, "age")
}

func TestCompleteNames(t *testing.T) {
	s := newSite(t)
	s.hold("deploy/prod")
	s.hold("other")
	for _, command := range []string{"ls", "inspect", "status", "tail", "force-unlock", "run", "hold", "elect"} {
		got := s.run("__complete", command, "dep")
		if !strings.HasPrefix(got.stdout, "deploy/prod\n:") {
			t.Errorf("%s: got %q", command, got.stdout)
		}
	}
	if got := call(t, bare("HOLDFAST_URL=redis://127.0.0.1:1"), "__complete", "inspect", "d"); got.code != 0 || !strings.HasPrefix(got.stdout, ":") {
		t.Errorf("without a store: got %+v, want no names and no error", got)
	}
}

func TestListWatch(t *testing.T) {
	s := newSite(t)
	p := s.start(nil, "ls", "--watch", "100ms", "job")
	p.await(`no locked name matches "job"`)
	s.hold("job")
	p.await("ci-runner-7@build:4121")
	s.server.SetError("LOADING soon")
	p.await("LOADING soon")
	s.server.SetError("")
	p.await("ci-runner-7@build:4121")
	p.signal(syscall.SIGINT)
	if got := p.status(); got != 130 {
		t.Errorf("got status %d, want 130", got)
	}
	s.run("ls", "--watch", "1ms").want(t, 64, "--watch")
	s.run("ls", "--watch", "1s", "--json").want(t, 64, "tail")
}

// A name that is kept is shown until when, and by whom: nobody holds it. It is freed by force.
func TestKeptName(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		s.run("run", "--at-least", "1h", "--reason", "nightly", "job", "true").want(t, 0)
		for command, want := range map[string][]string{
			"ls":                   {"taken until ", " (kept by true@", " (nightly))", " 0      -  "},
			"ls --wide":            {"taken until ", ".kept"},
			"ls --json":            {`"holders":0`, `"kept":true`},
			"inspect job":          {"taken until ", " (kept by true@", "holders     0"},
			"tail --for 300ms job": {},
		} {
			got := s.run(strings.Fields(command)...)
			got.want(t, 0)
			for _, text := range want {
				if !strings.Contains(got.stdout, text) {
					t.Errorf("%s: got %s, want it to contain %q", command, got.stdout, text)
				}
			}
			if strings.Contains(got.stdout, "held ") || len(want) == 0 && got.stdout != "" {
				t.Errorf("%s: got %s, want no hold", command, got.stdout)
			}
		}
		if got := s.run("status", "job"); got.code != output.ExitBusy || !strings.Contains(got.stdout, "job: taken until ") {
			t.Errorf("status: got %d, %s", got.code, got.stdout)
		}
		s.run("run", "-n", "job", "true").want(t, output.ExitBusy, `lock "job" is taken until `, " (kept by true@")
		owner := objects(t, s.run("inspect", "--json", "job"))[0]["holds"].([]any)[0].(map[string]any)["owner"].(string)
		s.run("force-unlock", "job", "--reason", "INC-1", "--yes", "--holder", owner).want(t, 0)
		s.run("run", "-n", "job", "true").want(t, 0)
	})
}
