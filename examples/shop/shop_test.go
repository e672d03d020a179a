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

// shelf is a stock in memory.
type shelf struct {
	fence  fence.Guard
	pieces int
}

func (s *shelf) take(_ context.Context, lock *holdfast.Lock, _ string, n int) (left int, err error) {
	err = s.fence.Do(lock.Name(), lock.Token(), func() error { s.pieces -= n; left = s.pieces; return nil })
	return left, err
}

// Two instances get an order for the same item, the second one a second after the first. The
// clock is fake: an hour takes no time.
func TestTwoOrders(t *testing.T) {
	for _, test := range []struct {
		pieces, left int
		payment      time.Duration
		lost         bool   // the lock of the first order, when the second one comes
		statuses     [2]int // of the answers
	}{
		{pieces: 1, left: 0, payment: 2 * time.Second, statuses: [2]int{200, 409}},
		{pieces: 2, left: 1, payment: time.Hour, statuses: [2]int{200, 423}},
		{pieces: 2, left: 1, payment: 2 * time.Second, lost: true, statuses: [2]int{503, 200}},
	} {
		synctest.Test(t, func(t *testing.T) {
			locks, stock := memhold.New(), &shelf{pieces: test.pieces}
			order := func() int {
				s := &shop{holdfast.New(locks, nil), stock, test.payment, slog.New(slog.DiscardHandler)}
				w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil)
				r.SetPathValue("item", "teapot")
				s.handleBuy(w, r)
				return w.Code
			}
			first := make(chan int)
			go func() { first <- order() }()
			time.Sleep(time.Second)
			if test.lost {
				locks.Drop("stock:teapot")
			}
			second := order()
			if got := [2]int{<-first, second}; got != test.statuses || stock.pieces != test.left {
				t.Errorf("%+v: got %v and %d pieces", test, got, stock.pieces)
			}
		})
	}
}
