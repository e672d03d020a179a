//go:build unix

package shoptest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

func TestShop(t *testing.T) {
	w := newTown(t)
	for name, test := range map[string]func(*testing.T, *town){
		"AKilledInstance": aKilledInstance, "APausedInstance": aPausedInstance, "APausedTransaction": aPausedTransaction,
		"ALostLock": aLostLock, "Shutdown": shutdown,
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
		go func() { answers <- i.insist(item) }()
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
	item string
	left int // how many pieces there are
	got  chan answer
}

// pay has an instance take an order, and pauses it in the middle of the payment.
func pay(t *testing.T, w *town, item string) paying {
	t.Helper()
	p := paying{w.open(t, time.Second), item, 3, make(chan answer, 1)}
	w.stock(t, item, p.left)
	for range 5 {
		last := w.token(t, item)
		go func() { p.got <- p.order(item) }()
		await.Until(t, limit, "the order has read the stock", func() bool { return w.token(t, item) > last })
		if err := child.Pause(p.cmd.Process); err != nil {
			t.Fatal(err)
		}
		if left := w.left(t, item); left == p.left {
			return p
		}
		p.left-- // the machine stood still while the order was paid: once more
		p.resume(t)
	}
	t.Fatal("no instance was paused in the middle of a payment")
	return p
}

// resume lets the instance go on, and returns what its order gets.
func (p paying) resume(t *testing.T) answer {
	t.Helper()
	if err := child.Resume(p.cmd.Process); err != nil {
		t.Fatal(err)
	}
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
	if got, want := other.insist(p.item), fmt.Sprintf("sold, %d left", p.left-1); got.text != want {
		t.Errorf("the other instance got %+v, want %s", got, want)
	}
	if got := p.resume(t); got.status != http.StatusServiceUnavailable || !strings.Contains(p.said(), `"msg":"not sold"`) {
		t.Errorf("the paused instance got %+v, want 503", got)
	}
	if left := w.left(t, p.item); left != p.left-1 {
		t.Errorf("%d pieces are left, want %d", left, p.left-1)
	}
}

// An instance is paused for longer than its lease.
func aPausedInstance(t *testing.T, w *town) {
	other := w.open(t, 0)
	pay(t, w, "pan").mustBeRefused(t, w, other)
}

// An instance is paused within a transaction, which PostgreSQL ends after some seconds.
func aPausedTransaction(t *testing.T, w *town) {
	other, p := w.open(t, 0), paying{w.open(t, 0), "ladle", 3, make(chan answer, 1)}
	w.stock(t, p.item, p.left)
	tx, err := w.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec("SELECT pieces FROM stock WHERE item = $1 FOR UPDATE", p.item); err != nil {
		t.Fatal(err)
	}
	go func() { p.got <- p.order(p.item) }()
	await.Until(t, limit, "the order waits for the row", func() bool {
		return w.count(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE stock%'") == 1
	})
	if err := child.Pause(p.cmd.Process); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	p.mustBeRefused(t, w, other)
}

// Redis forgets a lock, as after a failover. Its holder does not notice that: the database
// refuses the token.
func aLostLock(t *testing.T, w *town) {
	other := w.open(t, 0)
	p := pay(t, w, "pot")
	if n := w.redis.Do("DEL", "stock:"+p.item); n != int64(1) {
		t.Fatalf("Redis deleted %v locks, want 1", n)
	}
	p.mustBeRefused(t, w, other)
}

// An instance that gets SIGTERM sells what is being paid, releases the lock, and ends.
func shutdown(t *testing.T, w *town) {
	const item = "spoon"
	w.stock(t, item, 1)
	i, got := w.open(t, time.Second), make(chan answer, 1)
	go func() { got <- i.order(item) }()
	await.Until(t, limit, "the lock is held", func() bool { return i.has("/metrics", held) })
	if err := i.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.text != "sold, 0 left" {
		t.Errorf("the order got %+v, want it sold", a)
	}
	select {
	case <-i.ended:
	case <-time.After(limit):
		t.Fatal("the instance has not ended")
	}
	if i.err != nil {
		t.Errorf("the instance ended with %v", i.err)
	}
	if n := w.redis.Do("EXISTS", "stock:"+item); n != int64(0) {
		t.Errorf("Redis has %v locks, want none", n)
	}
}
