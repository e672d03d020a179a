//go:build unix

// Package shoptest runs instances of examples/shop over a real Redis and a real PostgreSQL,
// and types the lines of its README.
package shoptest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/child"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// root is the folder of the repository.
const root = "../../.."

// limit is how long a test waits for what takes seconds at most.
const limit = 30 * time.Second

// town has the servers of all instances, and their program.
type town struct {
	program string
	redis   *redistest.Server
	url     string // of the database
	db      *sql.DB
	client  *http.Client
}

func newTown(t *testing.T) *town {
	t.Helper()
	w := &town{program: filepath.Join(t.TempDir(), "shop"), redis: redistest.Start(t), client: &http.Client{Timeout: limit}}
	w.url, w.db = sqltest.StartPostgreSQL(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", w.program, ".")
	build.Dir = filepath.Join(root, "examples/shop")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	schema, err := os.ReadFile(filepath.Join(root, "examples/shop/schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.Exec(string(schema)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

// stock puts pieces of an item on sale.
func (w *town) stock(t *testing.T, item string, pieces int) {
	t.Helper()
	if _, err := w.db.Exec("INSERT INTO stock VALUES ($1, $2)", item, pieces); err != nil {
		t.Fatal(err)
	}
}

// left returns how many pieces of an item are left.
func (w *town) left(t *testing.T, item string) int {
	t.Helper()
	return w.count(t, "SELECT pieces FROM stock WHERE item = $1", item)
}

// token returns the token of the last order of an item that has read the stock, or 0.
func (w *town) token(t *testing.T, item string) int {
	t.Helper()
	return w.count(t, "SELECT coalesce(max(token), 0) FROM fence WHERE name = $1", "stock:"+item)
}

// count returns the number that a query finds.
func (w *town) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := w.db.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// instance is a process.
type instance struct {
	addr   string
	log    string // the file
	cmd    *exec.Cmd
	err    error // how it ended; read after ended
	ended  <-chan struct{}
	client *http.Client
}

// open starts an instance whose payment service takes so long, with other settings. t kills it.
func (w *town) open(t *testing.T, payment time.Duration, settings ...string) *instance {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	i, err := child.UntilPortsAreFree(func() (*instance, error) {
		port, err := redistest.FreePort()
		if err != nil {
			return nil, err
		}
		i := &instance{addr: fmt.Sprintf("127.0.0.1:%d", port), log: log, cmd: exec.Command(w.program), client: w.client}
		i.cmd.Env = append(os.Environ(), "LISTEN="+i.addr, "REDIS_ADDR="+w.redis.Addr(), "DATABASE_URL="+w.url, "PAYMENT_TAKES="+payment.String(),
			"GORACE=atexit_sleep_ms=0") // it ends at once
		i.cmd.Env = append(i.cmd.Env, settings...)
		return i, i.start()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		i.kill()
		if t.Failed() {
			t.Logf("the instance at %s:\n%s", i.addr, i.said())
		}
	})
	return i
}

// start returns when the instance answers.
func (i *instance) start() error {
	out, err := os.Create(i.log)
	if err != nil {
		return err
	}
	i.cmd.Stdout, i.cmd.Stderr = out, out
	i.ended, err = child.Start(i.cmd, func() {
		i.err = i.cmd.Wait()
		_ = out.Close()
	})
	if err != nil {
		return errors.Join(err, out.Close())
	}
	if await.Eventually(limit, func() bool { return i.has("/health", "") || i.over() }) && !i.over() {
		return nil
	}
	i.kill()
	if strings.Contains(i.said(), "address already in use") {
		return child.ErrPortTaken
	}
	return fmt.Errorf("the instance does not answer:\n%s", i.said())
}

func (i *instance) over() bool {
	select {
	case <-i.ended:
		return true
	default:
		return false
	}
}

// kill ends the instance with SIGKILL, if it runs.
func (i *instance) kill() {
	_ = i.cmd.Process.Kill() // fails only where it has ended
	<-i.ended
}

// said returns what the instance has logged.
func (i *instance) said() string {
	text, err := os.ReadFile(i.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// has reports whether a page is there, and contains text.
func (i *instance) has(page, text string) bool {
	r, err := i.client.Get("http://" + i.addr + page)
	if err != nil {
		return false
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return err == nil && r.StatusCode == http.StatusOK && strings.Contains(string(body), text)
}

// answer is what an order got.
type answer struct {
	status int // 0 without an answer
	text   string
}

// order buys a piece. The customer leaves when ctx ends.
func (i *instance) order(ctx context.Context, item string) answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+i.addr+"/buy/"+item, nil)
	if err != nil {
		return answer{text: err.Error()}
	}
	r, err := i.client.Do(request)
	if err != nil {
		return answer{text: err.Error()}
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return answer{text: err.Error()}
	}
	return answer{r.StatusCode, strings.TrimSpace(string(body))}
}

// orderWhenFree orders until the item is not busy.
func (i *instance) orderWhenFree(ctx context.Context, item string) (got answer) {
	await.Eventually(2*limit, func() bool {
		got = i.order(ctx, item)
		return got.status != http.StatusLocked
	})
	return got
}
