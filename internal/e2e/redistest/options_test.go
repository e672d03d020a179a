package redistest_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

func TestShiftClock(t *testing.T) {
	s := start(t, redistest.ShiftableClock(), redistest.AOF())
	s.Do("SET", "short", "v", "PX", "30000")
	s.Do("SET", "long", "v", "PX", "90000")
	for _, tc := range []struct {
		shift            time.Duration
		short, long      time.Duration // left, about
		shortGone, again bool
	}{
		{shift: 0, short: 30 * time.Second, long: 90 * time.Second},
		{shift: -20*time.Second - 250*time.Millisecond, short: 50 * time.Second, long: 110 * time.Second},
		{shift: 10 * time.Second, short: 20 * time.Second, long: 80 * time.Second, again: true},
		{shift: time.Minute, shortGone: true, long: 30 * time.Second},
	} {
		start := await.NewWatch(t)
		s.ShiftClock(tc.shift)
		if took := start.Took(); took > 900*time.Millisecond {
			t.Errorf("shifted by %v: returned after %v: it did not see the server's new time", tc.shift, took)
		}
		if tc.again { // the shift outlasts the process
			s.Restart()
		}
		if got, want := s.Int("PTTL", "short"), tc.short; tc.shortGone && got != -2 || !tc.shortGone && !about(got, want) {
			t.Errorf("shifted by %v: got %d ms for the short one, want %v, gone %v", tc.shift, got, want, tc.shortGone)
		}
		if got := s.Int("PTTL", "long"); !about(got, tc.long) {
			t.Errorf("shifted by %v: got %d ms for the long one, want %v", tc.shift, got, tc.long)
		}
	}
}

func TestStopClock(t *testing.T) {
	s := start(t, redistest.ShiftableClock())
	at := time.Date(2030, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	if !s.StopClock(at) {
		t.Skip("this server counts the time itself")
	}
	s.Do("SET", "k", "v", "PX", "1000")
	for _, c := range []struct {
		later time.Duration
		left  int64
	}{{0, 1000}, {time.Millisecond, 999}, {time.Second, 0}, {time.Second + time.Millisecond, -2}} {
		s.StopClock(at.Add(c.later))
		if got := s.Int("PTTL", "k"); got != c.left {
			t.Errorf("%v later: got a TTL of %d ms, want %d", c.later, got, c.left)
		}
	}
	s.ShiftClock(0)
	if got := s.Strings("TIME")[0]; got == strconv.FormatInt(at.Unix()+1, 10) {
		t.Error("the clock did not go on")
	}
}

func about(ms int64, want time.Duration) bool {
	return (time.Duration(ms)*time.Millisecond - want).Abs() < 5*time.Second
}

func TestNoCompiler(t *testing.T) {
	start(t)
	only := t.TempDir()
	if err := os.WriteFile(filepath.Join(only, "redis-server"), nil, 0o700); err != nil { // never run
		t.Fatal(err)
	}
	t.Setenv("PATH", only)
	if _, err := redistest.Run(t.TempDir(), redistest.ShiftableClock()); !errors.Is(err, redistest.ErrNoClock) {
		t.Fatalf("got %v, want ErrNoClock", err)
	}
}

func TestFillMemory(t *testing.T) {
	s := start(t, redistest.MaxMemory("64mb", "allkeys-lru"))
	s.String("SET", "k", "v")
	s.FillMemory()
	want(t, s.Do("SET", "k", "w"), "OOM")
	if got := s.Do("GET", "k"); got != any("v") {
		t.Fatalf("got %v, want v: nothing is evicted", got)
	}
	s.FreeMemory()
	s.FreeMemory()
	s.String("SET", "k", "w")
	if got := s.Map("CONFIG", "GET", "maxmemory*"); got["maxmemory"] != "67108864" || got["maxmemory-policy"] != "allkeys-lru" {
		t.Fatalf("got %v, want what was set before", got)
	}
}

func TestFailSaves(t *testing.T) {
	s := start(t)
	s.RepairSaves()
	s.String("SET", "k", "v")
	s.FailSaves()
	want(t, s.Do("SET", "k", "w"), "MISCONF")
	want(t, s.Do("PING"), "MISCONF")
	s.RepairSaves()
	s.RepairSaves()
	s.String("SET", "k", "w")
}

// Systems allow the path of a socket about 100 bytes.
func TestUnixSocketInAFarFolder(t *testing.T) {
	start(t)
	far := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(far, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := redistest.Run(far, redistest.UnixSocket())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := net.Dial("unix", s.Socket())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	s.Close()
	if _, err := os.Stat(s.Socket()); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("got %v, want the socket gone", err)
	}
}

func TestReplicasThatWereCutOffForLong(t *testing.T) {
	t.Parallel()
	d := deploy(t, redistest.Sentinel, redistest.NodeTimeout(100*time.Millisecond))
	old := d.Master("k")
	d.CutReplication(old)
	for _, r := range d.ReplicasOf(old) {
		for _, s := range d.Sentinels() { // they promote nobody that they saw cut off for ten times as long
			await.Until(t, 30*time.Second, "a sentinel knows that "+r.Addr()+" was cut off", func() bool { return cutOff(s, r) > 2000 })
		}
	}
	old.Kill()
	begin := time.Now()
	heal(t, d)
	if took := time.Since(begin); took < 10*time.Second {
		t.Errorf("healed after %v: a sentinel promoted one by itself, so this shows nothing", took)
	}
	if d.Master("k") == old {
		t.Fatal("the killed server is master again")
	}
}

// cutOff returns for how many milliseconds a replica was cut off from its master, as a
// sentinel knows.
func cutOff(sentinel, replica *redistest.Server) (ms int) {
	list, _ := sentinel.Do("SENTINEL", "REPLICAS", redistest.MasterName).([]any)
	for _, fields := range list {
		var about []string
		for _, field := range fields.([]any) {
			about = append(about, field.(string))
		}
		if at := slices.Index(about, "master-link-down-time"); about[1] == replica.Addr() && at >= 0 {
			ms, _ = strconv.Atoi(about[at+1])
		}
	}
	return ms
}
