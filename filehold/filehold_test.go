//go:build linux

package filehold_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/filehold"
)

// open returns a Backend over a new folder.
func open(t *testing.T) *filehold.Backend {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "locks"))
}

func openAt(t *testing.T, path string) *filehold.Backend {
	t.Helper()
	b, err := filehold.Open(path, filehold.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// openFake returns a Backend over a new folder, whose leases run by the fake clock of a bubble.
func openFake(t *testing.T) *filehold.Backend {
	t.Helper()
	began := time.Now()
	b, err := filehold.OpenWithClock(filepath.Join(t.TempDir(), "locks"), func() time.Duration { return time.Since(began) }, "boot")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Drain(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestConformance(t *testing.T) {
	drivertest.Suite{Open: func(t *testing.T) driver.Backend { return openFake(t) }, Synctest: true}.Run(t)
}

// The same with the clock of the machine.
func TestConformanceInRealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	drivertest.Suite{Open: func(t *testing.T) driver.Backend { return open(t) }, TTL: time.Second}.Run(t)
}

func TestAdmin(t *testing.T) {
	admintest.Suite{Open: func(t *testing.T) admintest.Store { return openFake(t) }, Synctest: true}.Run(t)
}

// After a start of the machine a lease ends by the clock on the wall, and later by the tolerance.
func TestLeaseFromBeforeAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "locks")
		begin := func(boot string) *holdfast.Locker {
			began := time.Now()
			b, err := filehold.OpenWithClock(folder, func() time.Duration { return time.Since(began) }, boot)
			if err != nil {
				t.Fatal(err)
			}
			return holdfast.New(b, &holdfast.Options{TTL: 30 * time.Second})
		}
		held, err := begin("first").Mutex("job").Lock(t.Context(), holdfast.FixedLease(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		for after := 20 * time.Second; ; after += time.Second {
			next, err := begin("second").Mutex("job").TryLock(t.Context())
			if err == nil {
				if after < 30*time.Second || after > 42*time.Second || next.Token() <= held.Token() {
					t.Errorf("granted after %v with token %d after %d", after, next.Token(), held.Token())
				}
				if err := next.Unlock(); err != nil {
					t.Error(err)
				}
				break
			}
			if after > time.Minute {
				t.Fatalf("not granted after %v: %v", after, err)
			}
			time.Sleep(time.Second)
		}
	})
}

// Two Backends over one folder exclude each other, and share tokens.
func TestTwoProcesses(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "locks")
	a, b := holdfast.New(openAt(t, folder), nil), holdfast.New(openAt(t, folder), nil)
	held, err := a.Mutex("deploy/prod").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Mutex("deploy/prod").TryLock(t.Context()); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("TryLock beside a holder: got %v, want ErrBusy", err)
	}
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
	next, err := b.Mutex("deploy/prod").Lock(t.Context())
	if err != nil || next.Token() <= held.Token() {
		t.Fatalf("got %v and error %v, want a token above %d", next, err, held.Token())
	}
	if _, err := a.Mutex("deploy/prod").TryLock(t.Context()); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("TryLock of the first holder beside the next: got %v, want ErrBusy", err)
	}
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
}

// Names of any bytes have different files, and List finds them.
func TestNames(t *testing.T) {
	b := open(t)
	locker := holdfast.New(b, nil)
	names := []string{
		"a", "A", "a/b", "/", "%2f", "../../etc/passwd", ".", "..", ".hidden", "100%", "%61", "naïve", "\xff\xfe", "new\nline", " ", "+x",
		strings.Repeat("x", 201), strings.Repeat("x", 202), strings.Repeat("Ä", 300), "con", "holdfast",
	}
	for _, name := range names {
		if _, err := locker.Mutex(name).TryLock(t.Context()); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	var listed []string
	for r, err := range b.List(t.Context(), admin.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, r.Name)
	}
	slices.Sort(names)
	if !slices.Equal(listed, names) {
		t.Errorf("got %q, want %q", listed, names)
	}
	listed = nil
	for r, err := range b.List(t.Context(), admin.Filter{NamePrefix: "a"}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, r.Name)
	}
	if !slices.Equal(listed, []string{"a", "a/b"}) {
		t.Errorf("with the prefix a: got %q", listed)
	}
}

// Nothing but the folder is touched, and its files have its permissions.
func TestFilesHaveThePermissionsOfTheFolder(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	above := t.TempDir()
	folder := filepath.Join(above, "locks")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o770); err != nil {
		t.Fatal(err)
	}
	locker := holdfast.New(openAt(t, folder), nil)
	held, err := locker.Mutex("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		info, err := e.Info()
		want := os.FileMode(0o660)
		if e.IsDir() {
			want = 0o770
		} else {
			files++
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: got permissions %o, want %o", path, got, want)
		}
		return err
	})
	if err != nil || files != 4 {
		t.Errorf("got %d files and error %v, want the marker, a lock, a client and a name", files, err)
	}
	entries, err := os.ReadDir(above)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v and error %v beside the folder", entries, err)
	}
}

// A folder that is not for locks is refused, and nothing in it changes.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	later := filepath.Join(dir, "later")
	if err := errors.Join(os.Mkdir(later, 0o700), os.WriteFile(filepath.Join(later, "holdfast"), []byte("folder of locks, layout 2\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file:                            "is not a folder",
		dir:                             "other files",
		later:                           "later version",
		"/proc/self":                    "file system",
		filepath.Join(dir, "no", "way"): "no such file",
	} {
		_, err := filehold.Open(path, filehold.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", path, err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("got %v and error %v, want the two entries that were there", entries, err)
	}
}

// Programs that begin at the same time, in a folder that is not there yet, all get it.
func TestOpenAtTheSameTime(t *testing.T) {
	for range 30 {
		folder := filepath.Join(t.TempDir(), "locks")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := filehold.Open(folder, filehold.Options{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

// List finds all names, also those after a page with a file that is none of a lock.
func TestListOfManyNames(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "locks")
	b := openAt(t, folder)
	const all = 700
	var claims []driver.Claim
	for i := range all {
		claims = append(claims, driver.Claim{
			Name: fmt.Sprintf("name %04d", i), Owner: fmt.Sprint("client:", i+1), Client: "client", Seq: uint64(i + 1),
			TTL: time.Hour, Count: 1, Tokens: 1,
		})
	}
	for i, a := range b.TryAll(t.Context(), claims) {
		if a.Err != nil || !a.Outcome.Granted {
			t.Fatalf("claim %d: got %+v", i, a)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "names", "foreign"), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, err := range b.List(t.Context(), admin.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed++
	}
	if listed != all {
		t.Errorf("got %d names, want %d", listed, all)
	}
}

// A file that is no file of a lock is refused, and stays.
func TestForeignFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "locks")
	b := openAt(t, folder)
	file := filepath.Join(folder, "names", "job")
	if err := os.WriteFile(file, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := holdfast.New(b, nil).Mutex("job").TryLock(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
		t.Errorf("got %v, want ErrMismatch", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "hello\n" {
		t.Errorf("the file became %q (%v)", data, err)
	}
}

// A call whose context ends while another process writes returns, and changes nothing.
func TestCallEndsWithItsContext(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "locks")
	b := openAt(t, folder)
	for i := range 64 { // whichever belongs to the name
		f, err := os.OpenFile(filepath.Join(folder, "locks", lockFile(i)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c := driver.Claim{Name: "job", Owner: "client:1", Client: "client", Seq: 1, TTL: time.Minute, Count: 1, Tokens: 1}
	if _, err := b.Try(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the end of the context", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "names", "job")); err == nil {
		t.Error("the call has written the file")
	}
}

func lockFile(i int) string { return string([]byte{byte('0' + i/10), byte('0' + i%10)}) + ".lock" }
