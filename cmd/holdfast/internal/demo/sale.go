package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/plural"
)

// saleLimit bounds a sale.
const saleLimit = time.Minute

// sale is the result of a sale.
type sale struct {
	outcome
	Locked  bool   `json:"locked"`
	Running bool   `json:"running"` // always false: the answer is sent at the end
	Over    bool   `json:"over"`    // the sale ended without an error
	Error   string `json:"error,omitempty"`
}

// sell runs a sale, like a round of the demo on the terminal.
func (s *site) sell(ctx context.Context, locked bool, buyers, items int) reply {
	ctx, cancel := context.WithTimeoutCause(ctx, saleLimit, fmt.Errorf("the sale took longer than %s", saleLimit))
	defer cancel()
	first := s.Servers[0]
	d := &demo{
		Options: Options{Buyers: buyers, Items: items, Processes: 3, Out: io.Discard, Worker: s.Worker, Env: s.Env},
		server:  first, log: true, shop: newShop(first.conn, keys{prefix, "shop:" + strings.ToLower(rand.Text()[:6]) + ":" + lockName}),
	}
	o, err := d.race(ctx, locked)
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer stop()
	err = errors.Join(err, d.shop.sweep(last), d.shop.keepFor(last, d.shop.keys.counter()))
	if err != nil {
		return reply{http.StatusServiceUnavailable, sale{outcome: o, Locked: locked, Error: err.Error()}}
	}
	return reply{http.StatusOK, sale{outcome: o, Locked: locked, Over: true}}
}

// String returns the result in a line.
func (s sale) String() string {
	how := "without a lock"
	if s.Locked {
		how = "with a lock"
	}
	if s.Error != "" {
		return fmt.Sprintf("%s: %s.", how, s.Error)
	}
	verdict := "exact"
	if n := s.Sold - s.Items; n > 0 {
		verdict = fmt.Sprintf("OVERSOLD by %d", n)
	} else if n < 0 && s.Buyers >= s.Items {
		verdict = plural.Count(-n, "item") + " not sold"
	}
	return fmt.Sprintf("%s: %s, %s, %d sold, %s \"sold out\", %d left in stock: %s.",
		how, plural.Count(s.Buyers, "buyer"), plural.Count(s.Items, "item"), s.Sold, plural.Count(s.SoldOut, "answer"), s.Stock, verdict)
}
