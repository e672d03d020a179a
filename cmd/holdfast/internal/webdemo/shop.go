package webdemo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// shops is how many clients the buyers are spread over. Each has its own identity,
// as programs on different machines have.
const shops = 3

// saleLimit bounds a sale.
const saleLimit = time.Minute

// saleState is how the last sale went, or goes.
type saleState struct {
	Locked  bool   `json:"locked"`
	Running bool   `json:"running"`
	Over    bool   `json:"over"`
	Buyers  int    `json:"buyers"`
	Items   int    `json:"items"`
	Sold    int    `json:"sold"`
	SoldOut int    `json:"told_sold_out"`
	Stock   int    `json:"stock"` // at the end, as Redis has it
	Took    int64  `json:"took_ms"`
	Error   string `json:"error,omitempty"`
}

// Oversold returns how many items were sold that the shop did not have.
func (s saleState) Oversold() int { return max(0, s.Sold-s.Items) }

// mall sells the last items to many buyers.
type mall struct {
	store   *store
	lockers []*holdfast.Locker
	log     *audit.Writer
	scripts shopScripts
	board   *board
	turns   [2]chan struct{} // capacity 1: one sale of each kind at a time
}

func newMall(s *store, b *board) *mall {
	m := &mall{store: s, scripts: loadShopScripts(), board: b}
	m.log = audit.New(s.Backend, nil)
	for i := range shops {
		m.lockers = append(m.lockers, holdfast.New(s.Backend, &holdfast.Options{TTL: defaultLease, Note: fmt.Sprintf("shop %d", i+1), Observe: m.log.Observe}))
	}
	for i := range m.turns {
		m.turns[i] = make(chan struct{}, 1)
	}
	return m
}

// sale is one sale.
type sale struct {
	*mall
	stock, sales string // keys
	index        int
	locked       bool

	mu    sync.Mutex
	state saleState
}

var errRunning = errors.New("one is under way already")

// begin reserves the next sale, or returns errRunning.
func (m *mall) begin(locked bool, buyers, items int) (*sale, error) {
	s := &sale{mall: m, locked: locked}
	if locked {
		s.index = 1
	}
	select {
	case m.turns[s.index] <- struct{}{}:
	default:
		return nil, errRunning
	}
	name := prefix + "shop:" + strings.ToLower(rand.Text()[:6])
	s.stock, s.sales = name+":stock", name+":sales"
	s.state = saleState{Locked: locked, Running: true, Buyers: buyers, Items: items}
	s.note(func(*saleState) {})
	return s, nil
}

// note changes the state, and shows it.
func (s *sale) note(change func(*saleState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.state)
	now := s.state
	s.board.update(func(b *state) { b.Sales[s.index] = now })
}

// run runs the sale and returns what came of it.
func (s *sale) run(ctx context.Context) saleState {
	defer func() { <-s.turns[s.index] }()
	ctx, cancel := context.WithTimeoutCause(ctx, saleLimit, fmt.Errorf("the sale took longer than %s", saleLimit))
	defer cancel()
	err := s.sell(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	s.note(func(now *saleState) {
		now.Running, now.Over = false, err == nil
		if err != nil {
			now.Error = err.Error()
		}
	})
	return s.state
}

func (s *sale) sell(ctx context.Context) (err error) {
	if _, err := s.store.run(ctx, s.scripts.open, []string{s.stock, s.sales}, strconv.Itoa(s.state.Items), milliseconds(keep)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	began := time.Now()
	err = s.buyAll(ctx)
	s.note(func(now *saleState) { now.Took = time.Since(began).Milliseconds() })
	return err
}

// buyAll lets all buyers loose at once.
func (s *sale) buyAll(ctx context.Context) error {
	errs := make([]error, s.state.Buyers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = s.buy(ctx, s.lockers[i%shops]) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err // they fail for the same reason; one is enough
		}
	}
	return nil
}

// buy is one buyer: with or without the lock, what it does is the same.
func (s *sale) buy(ctx context.Context, locker *holdfast.Locker) (err error) {
	var token uint64
	if s.locked {
		lock, lockErr := locker.Lock(ctx, tillName)
		if lockErr != nil {
			return lockErr
		}
		defer func() { err = errors.Join(err, lock.Unlock()) }()
		ctx, token = lock.Context(ctx), lock.Token()
	}
	reply, err := s.store.run(ctx, s.scripts.read, []string{s.stock})
	if err != nil {
		return err
	}
	text, _ := reply.(string)
	stock, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("the stock: %w", err)
	}
	if stock <= 0 {
		s.note(func(now *saleState) { now.SoldOut++ })
		return nil
	}
	if !retry.Sleep(ctx, 3*time.Millisecond+mathrand.N(5*time.Millisecond)) { //nolint:gosec // stands for a distant payment provider, protects nothing
		return context.Cause(ctx)
	}
	_, err = s.store.run(ctx, s.scripts.sell, []string{s.stock, s.sales}, strconv.Itoa(stock-1), strconv.FormatUint(token, 10), milliseconds(keep))
	if err == nil {
		s.note(func(now *saleState) { now.Sold++ })
	}
	return err
}

// close reads the books, and deletes them, also when ctx has ended.
func (s *sale) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	reply, err := s.store.run(ctx, s.scripts.close, []string{s.stock, s.sales})
	if err != nil {
		return err
	}
	list, _ := reply.([]any)
	if len(list) != 2 {
		return fmt.Errorf("the books have %d entries, want 2", len(list))
	}
	if _, err := s.store.run(ctx, s.scripts.keep, []string{prefix + tokenName}, milliseconds(keep)); err != nil {
		return err
	}
	text, _ := list[0].(string)
	sales, _ := list[1].(int64)
	stock, err := strconv.Atoi(text)
	s.note(func(now *saleState) { now.Stock, now.Sold = stock, int(sales) })
	return err
}

// drain waits until nothing is released any more.
func (m *mall) drain(ctx context.Context) {
	for _, l := range m.lockers {
		_ = l.Drain(ctx) // what is left ends with its lease
	}
	_ = m.log.Flush(ctx) // or is missing
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
