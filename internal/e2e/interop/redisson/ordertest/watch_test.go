package ordertest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// watcher sees what clients do to a read-write lock, which shows nowhere else who
// waits for it.
type watcher struct {
	t     *testing.T
	admin redistest.Admin
	name  string
	conn  net.Conn
	done  chan struct{}

	mu    sync.Mutex
	lines []string // of MONITOR, about the lock
}

// watch watches until the test ends.
func watch(t *testing.T, b *redisson.Bench) *watcher {
	t.Helper()
	w := &watcher{t: t, admin: b.Admin(), name: b.Name, done: make(chan struct{})}
	var err error
	if w.conn, err = net.DialTimeout("tcp", w.admin.Addr(), waitLimit); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(w.conn)
	in.Buffer(nil, 1<<20)
	if _, err := fmt.Fprint(w.conn, "MONITOR\r\n"); err != nil || !in.Scan() || in.Text() != "+OK" {
		t.Fatalf("MONITOR: %v, %q", err, in.Text())
	}
	go w.read(in)
	t.Cleanup(func() {
		_ = w.conn.Close()
		<-w.done
	})
	return w
}

func (w *watcher) read(in *bufio.Scanner) {
	defer close(w.done)
	for in.Scan() {
		if line := in.Text(); strings.Contains(line, `"`+w.name+`"`) {
			w.mu.Lock()
			w.lines = append(w.lines, line)
			w.mu.Unlock()
		}
	}
}

// channel is where all learn of releases.
func (w *watcher) channel() string { return "redisson_rwlock:{" + w.name + "}" }

// listens waits until n clients listen.
func (w *watcher) listens(n int64) {
	w.t.Helper()
	redisson.Await(w.t, fmt.Sprintf("%d clients listen", n), func() bool {
		return redisson.Listeners(w.admin, w.channel()) == n
	})
}

// since forgets what was seen.
func (w *watcher) since() {
	w.mu.Lock()
	w.lines = nil
	w.mu.Unlock()
}

// heard waits until n commands were seen whose lines contain text.
func (w *watcher) heard(text string, n int) {
	w.t.Helper()
	redisson.Await(w.t, fmt.Sprintf("%d times %s", n, text), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		seen := 0
		for _, line := range w.lines {
			if strings.Contains(line, text) {
				seen++
			}
		}
		return seen >= n
	})
}

// readers has n goroutines of one Locker wait to read, beside so many clients that
// listen already. The first of them alone asks: polled knows of all, then.
func (w *watcher) readers(b *redisson.Bench, adapter string, n int, beside int64) []*worker {
	w.t.Helper()
	read := b.Over(b.Through(adapter, redishold.Options{}), longTTL).RWMutex(b.Name).Read
	all := []*worker{inGo(w.t, b, read).wait()}
	w.listens(beside + 1)
	for range n - 1 {
		all = append(all, inGo(w.t, b, read).wait())
	}
	return all
}

// polled waits until the waiter of the one Locker that waits has just asked again.
// It does not ask again within WakeLimit.
func (w *watcher) polled() {
	w.t.Helper()
	w.since()
	w.heard(`lua] "PTTL"`, 1)
}
