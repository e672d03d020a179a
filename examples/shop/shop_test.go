package main

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/memhold"
)

// Two instances get an order for the same item, the second one a second after the first. The
// clock is fake: an hour takes no time.
func TestTwoOrders(t *testing.T) {
	for _, test := range []struct {
		pieces, left int
		payment      time.Duration
		lost         string // the lock of the first order, if it is dropped when the second one comes
		statuses     [2]int // of the answers
	}{
		{pieces: 1, left: 0, payment: 2 * time.Second, statuses: [2]int{200, 409}},
		{pieces: 2, left: 1, payment: time.Hour, statuses: [2]int{200, 423}},
		{pieces: 2, left: 1, payment: 2 * time.Second, lost: "stock:teapot", statuses: [2]int{503, 200}},
	} {
		synctest.Test(t, func(t *testing.T) {
			locks, stock, pieces := memhold.New(), fence.Guard{}, test.pieces
			take := func(_ context.Context, lock *holdfast.Lock, _ string, n int) (left int, err error) {
				err = stock.Do(lock.Name(), lock.Token(), func() error { pieces -= n; left = pieces; return nil })
				return left, err
			}
			order := func() int {
				s := &shop{holdfast.New(locks, nil), take, test.payment, slog.New(slog.DiscardHandler)}
				w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil)
				r.SetPathValue("item", "teapot")
				s.handleBuy(w, r)
				return w.Code
			}
			first := make(chan int)
			go func() { first <- order() }()
			time.Sleep(time.Second)
			locks.Drop(test.lost)
			second := order()
			if got := [2]int{<-first, second}; got != test.statuses || pieces != test.left {
				t.Errorf("%+v: got %v and %d pieces", test, got, pieces)
			}
		})
	}
}
