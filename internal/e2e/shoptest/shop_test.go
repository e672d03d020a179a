//go:build unix

package shoptest

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/child"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

func TestShop(t *testing.T) {
	w := newTown(t)
	for name, test := range map[string]func(*testing.T, *town){
		"AKilledInstance": aKilledInstance, "APausedInstance": aPausedInstance, "APausedTransaction": aPausedTransaction,
		"ALostLock": aLostLock, "AGoneCustomer": aGoneCustomer, "AnImpatientCustomer": anImpatientCustomer,
		"Shutdown": shutdown, "LongPayment": longPayment, "RefusedUnlock": refusedUnlock,
		"SecondSignal": secondSignal, "NoSuchItem": noSuchItem,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, w) })
	}
}

// held is what an instance shows that has the lock of an item.
const held = `holdfast_held{kind="mutex",lock_group="stock"} 1`

// Two instances get twice as many orders as there are pieces. One is killed while it has the
// lock, as far as that can be seen.
func aKilledInstance(t *testing.T, w *town) {
	const item, pieces = "kettle", 20
	w.stock(t, item, pieces)
	killed, other := w.open(t, 100*time.Millisecond), w.open(t, 100*time.Millisecond)
	answers := make(chan answer, 2*pieces)
	for n := range 2 * pieces {
		i := killed
		if n%2 == 0 {
			i = other
		}
		go func() { answers <- i.orderWhenFree(t.Context(), item) }()
	}
	var sold []string // what was left after each sale
	unknown := 0
	for range 2 * pieces {
		switch a := <-answers; {
		case a.status == http.StatusOK:
			if sold = append(sold, a.text); len(sold) == pieces/4 {
				await.Until(t, limit, "the lock is held", func() bool { return killed.has("/metrics", held) })
				killed.kill()
			}
		case a.status == 0: // of the one that was killed
			unknown++
		case a.status != http.StatusConflict:
			t.Errorf("an order got %+v", a)
		}
	}
	if left := w.left(t, item); left != 0 {
		t.Errorf("%d pieces are left, want 0", left)
	}
	slices.Sort(sold)
	if n := len(slices.Compact(slices.Clone(sold))); n != len(sold) || n+unknown < pieces || n > pieces || unknown == 0 {
		t.Errorf("%d orders got no answer, the others %q, want each of %d pieces sold once", unknown, sold, pieces)
	}
}

// paying is an order in the middle of its payment, in an instance that is paused there.
type paying struct {
	*instance
	item  string
	left  int // how many pieces there are
	got   chan answer
	leave func() // ends the request
}

// begin has an instance take an order, while there are so many pieces.
func begin(t *testing.T, i *instance, item string, left int) paying {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	p := paying{i, item, left, make(chan answer, 1), leave}
	go func() { p.got <- i.order(ctx, item) }()
	return p
}

// pay has an instance take an order, and pauses it in the middle of the payment.
func pay(t *testing.T, w *town, item string) paying {
	t.Helper()
	i := w.open(t, time.Second)
	w.stock(t, item, 5)
	for left := 5; left > 1; left-- {
		last := w.token(t, item)
		p := begin(t, i, item, left)
		await.Until(t, limit, "the order has read the stock", func() bool { return w.token(t, item) > last })
		if err := child.Pause(i.cmd.Process); err != nil {
			t.Fatal(err)
		}
		if w.left(t, item) == left {
			return p
		}
		p.resume(t) // the machine stood still while the order was paid: once more
		p.answer(t)
	}
	t.Fatal("no instance was paused in the middle of a payment")
	return paying{}
}

// resume lets the instance go on.
func (p paying) resume(t *testing.T) {
	t.Helper()
	if err := child.Resume(p.cmd.Process); err != nil {
		t.Fatal(err)
	}
}

// answer returns what the order gets.
func (p paying) answer(t *testing.T) answer {
	t.Helper()
	select {
	case a := <-p.got:
		return a
	case <-time.After(limit):
		t.Fatal("the order has no answer")
		return answer{}
	}
}

// mustBeRefused lets the instance go on, whose order comes after that of another one.
func (p paying) mustBeRefused(t *testing.T, w *town, other *instance) {
	t.Helper()
	if got, want := other.orderWhenFree(t.Context(), p.item), fmt.Sprintf("sold, %d left", p.left-1); got.text != want {
		t.Errorf("the other instance got %+v, want %s", got, want)
	}
	p.resume(t)
	if got := p.answer(t); got.status != http.StatusServiceUnavailable || !strings.Contains(p.said(), `"msg":"not sold"`) {
		t.Errorf("the paused instance got %+v, want 503", got)
	}
	if left := w.left(t, p.item); left != p.left-1 {
		t.Errorf("%d pieces are left, want %d", left, p.left-1)
	}
}

// holdRow has a transaction take the row of an item. The function waiters counts the sessions
// that wait for it.
func (w *town) holdRow(t *testing.T, item string) (tx *sql.Tx, waiters func() int) {
	t.Helper()
	tx, err := w.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	var pid int
	if err := tx.QueryRow("SELECT pg_backend_pid() FROM stock WHERE item = $1 FOR UPDATE", item).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	return tx, func() int {
		return w.count(t, "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))", pid)
	}
}

// An instance is paused for longer than its lease. When it goes on, it may see the end of the
// lease first, or that of the payment: only then it shows the token to the database. ALostLock
// tests the token.
func aPausedInstance(t *testing.T, w *town) {
	other := w.open(t, 0)
	pay(t, w, "pan").mustBeRefused(t, w, other)
}

// An instance is paused within a transaction, which PostgreSQL ends after some seconds.
func aPausedTransaction(t *testing.T, w *town) {
	const item, pieces = "ladle", 3
	other, i := w.open(t, 0), w.open(t, 0)
	w.stock(t, item, pieces)
	tx, waiters := w.holdRow(t, item)
	p := begin(t, i, item, pieces)
	await.Until(t, limit, "the order waits for the row", func() bool { return waiters() == 1 })
	if err := child.Pause(i.cmd.Process); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	p.mustBeRefused(t, w, other)
}

// Redis forgets a lock, as after a failover. Its holder has paid before it notices that: the
// other payment takes as long, and begins later. So the database has to refuse the token. On a
// machine that stands still, the holder may notice it first: once more then.
func aLostLock(t *testing.T, w *town) {
	other := w.open(t, time.Second)
	for n := range 5 {
		p := pay(t, w, fmt.Sprint("pot-", n))
		if n := w.redis.Do("DEL", "stock:"+p.item); n != int64(1) {
			t.Fatalf("Redis deleted %v locks, want 1", n)
		}
		p.mustBeRefused(t, w, other)
		if said := p.said(); strings.Contains(said, "paid, but not sold") && strings.Contains(said, "stale token") {
			return
		}
	}
	t.Error("no instance logged that the customer has paid, and that the token is stale")
}

// A customer leaves when the payment is made, and the piece is not yet taken.
func aGoneCustomer(t *testing.T, w *town) {
	p := pay(t, w, "cup")
	tx, waiters := w.holdRow(t, p.item)
	p.resume(t)
	await.Until(t, limit, "the order waits for the row", func() bool { return waiters() == 1 })
	p.leave()
	await.Never(t, time.Second, "the order ends with the request", func() bool { return waiters() == 0 })
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, limit, "the piece is sold", func() bool { return w.left(t, p.item) == p.left-1 })
}

// A customer leaves while the payment is made: nothing is sold, and that is no error.
func anImpatientCustomer(t *testing.T, w *town) {
	const item = "plate"
	w.stock(t, item, 1)
	p := begin(t, w.open(t, time.Hour), item, 1)
	await.Until(t, limit, "the lock is held", func() bool { return p.has("/metrics", held) })
	p.leave()
	await.Until(t, limit, "the lock is released", func() bool { return w.redis.Do("EXISTS", "stock:"+item) == int64(0) })
	w.mustClose(t, p, func() {})
	if left := w.left(t, item); left != 1 || strings.Contains(p.said(), `"level":"ERROR"`) {
		t.Errorf("%d pieces are left, want 1, and no error in the log", left)
	}
}

// mustClose sends SIGTERM to an instance, and waits until it has ended in order, without a
// lock that it left in Redis. The function meanwhile is called when the signal is sent.
func (w *town) mustClose(t *testing.T, p paying, meanwhile func()) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	meanwhile()
	select {
	case <-p.ended:
	case <-time.After(limit):
		t.Fatal("the instance has not ended")
	}
	if p.err != nil {
		t.Errorf("the instance ended with %v", p.err)
	}
	if n := w.redis.Do("EXISTS", "stock:"+p.item); n != int64(0) {
		t.Errorf("Redis has %v locks, want none", n)
	}
}

// An instance that gets SIGTERM sells what is being paid, releases the lock, and ends.
func shutdown(t *testing.T, w *town) {
	const item = "spoon"
	w.stock(t, item, 1)
	p := begin(t, w.open(t, time.Second), item, 1)
	await.Until(t, limit, "the lock is held", func() bool { return p.has("/metrics", held) })
	w.mustClose(t, p, func() {
		if a := p.answer(t); a.text != "sold, 0 left" {
			t.Errorf("the order got %+v, want it sold", a)
		}
	})
}

// A payment takes longer than the grace of the shutdown: the order ends with an error, and
// unlocks.
func longPayment(t *testing.T, w *town) { abort(t, w, "fork", func(paying, string) {}) }

// As longPayment, but Redis refuses the Unlock, which goes on in the background. The instance
// does not end before Redis takes it, or the lease ends.
func refusedUnlock(t *testing.T, w *town) {
	own := *w
	own.redis = redistest.Start(t)
	abort(t, &own, "knife", func(p paying, right string) {
		if right == "+@scripting" {
			await.Eventually(time.Second, p.over) // Shutdown returns within half a second
		}
		if got := own.redis.Do("ACL", "SETUSER", "default", right); got != "OK" {
			t.Errorf("Redis said %v", got)
		}
	})
}

// abort closes an instance whose payments take too long. The function scripts changes the right
// to run scripts, which a release needs: before the order ends, and after that.
func abort(t *testing.T, w *town, item string, scripts func(p paying, right string)) {
	t.Helper()
	w.stock(t, item, 1)
	p := begin(t, w.open(t, time.Hour, "GRACE=100ms"), item, 1)
	await.Until(t, limit, "the lock is held", func() bool { return p.has("/metrics", held) })
	scripts(p, "-@scripting")
	w.mustClose(t, p, func() {
		if a := p.answer(t); a.status != http.StatusServiceUnavailable {
			t.Errorf("the order got %+v, want 503", a)
		}
		scripts(p, "+@scripting")
	})
	if left := w.left(t, item); left != 1 {
		t.Errorf("%d pieces are left, want 1", left)
	}
}

// A second signal ends an instance that waits for a payment.
func secondSignal(t *testing.T, w *town) {
	const item = "mug"
	w.stock(t, item, 1)
	p := begin(t, w.open(t, time.Hour), item, 1)
	await.Until(t, limit, "the lock is held", func() bool { return p.has("/metrics", held) })
	for range 2 {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		await.Until(t, limit, "the instance is closed", func() bool { return !p.has("/health", "") })
	}
	await.Until(t, limit, "the instance has ended", p.over)
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		t.Errorf("the instance ended with %v, want the signal", p.err)
	}
}

// An item that never was there is not sold out.
func noSuchItem(t *testing.T, w *town) {
	if a := w.open(t, 0).order(t.Context(), "unicorn"); a.status != http.StatusNotFound {
		t.Errorf("the order got %+v, want 404", a)
	}
}
