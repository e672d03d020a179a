package rows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// table is a rows.Table in memory, with faults that a test sets.
type table struct {
	mu    sync.Mutex
	rows  map[string]*row
	links map[*link]bool

	made calls

	unchecked error                 // of Check
	before    func(tries int) error // before a Try; its error is that of the call
	unseen    map[string]bool       // names whose row the next Try does not know
	lost      bool                  // answers of Try are lost: the call is executed
	down      error                 // of Listen
	connect   time.Duration         // how long Listen takes to make its connection
	conflict  int                   // the number of a Page that is in conflict with others
	forcing   func()                // called by Force first
	chance    bool                  // nobody gets a place in a queue
}

// calls counts calls.
type calls struct{ checks, tries, looks, pages, listens, links int }

// calls returns how many calls there were, and how many connections listen.
func (t *table) calls() calls {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made.links = len(t.links)
	return t.made
}

type row struct {
	owner, note    string
	first, token   uint64 // of the tokens the first, and the last
	since, expires time.Time
	waiters        []string
	forced, reason string
}

type link struct {
	heard func(name, next string)
	cut   chan struct{}
}

func newTable() *table {
	return &table{rows: map[string]*row{}, links: map[*link]bool{}, unseen: map[string]bool{}}
}

var errLost = errors.New("answer lost")

func (t *table) Check(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made.checks++
	return t.unchecked
}

func (t *table) Try(ctx context.Context, cs []driver.Claim) ([]rows.Row, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made.tries++
	if t.before != nil {
		if err := t.before(t.made.tries); err != nil {
			return nil, err
		}
	}
	answers, names := make([]rows.Row, len(cs)), map[string]bool{}
	for i, c := range cs {
		if names[c.Name] || c.TTL != cs[0].TTL || c.Tokens != cs[0].Tokens || c.NoQueue != cs[0].NoQueue {
			panic(fmt.Sprintf("claims that do not belong into one Try: %+v", cs))
		}
		names[c.Name] = true
		if t.unseen[c.Name] {
			delete(t.unseen, c.Name)
			continue
		}
		answers[i] = t.try(c)
	}
	if t.lost {
		return nil, errLost
	}
	return answers, nil
}

func (t *table) try(c driver.Claim) rows.Row {
	now := time.Now()
	r := t.rows[c.Name]
	if r == nil {
		r = &row{}
		t.rows[c.Name] = r
	}
	seen := r.seen(now)
	switch place := slices.Index(r.waiters, c.Owner); {
	case seen.FreeIn(c.Owner) <= 0:
		if r.waiters = r.waiters[place+1:]; place < 0 {
			r.waiters = nil
		}
		r.first, r.token, r.since, r.expires = r.token+1, r.token+uint64(c.Tokens), now, now.Add(c.TTL)
	case r.owner == c.Owner && now.Before(r.expires):
		if end := now.Add(c.TTL); end.After(r.expires) {
			r.expires = end
		}
	default:
		if place < 0 && !c.NoQueue && !t.chance && len(r.waiters) < rows.Waiting {
			r.waiters = append(r.waiters, c.Owner)
		}
		return r.seen(now)
	}
	r.owner, r.note = c.Owner, c.Note
	answer := r.seen(now)
	answer.Granted = true
	return answer
}

func (r *row) seen(now time.Time) rows.Row {
	return rows.Row{
		Known: true, First: r.first, Last: r.token, Owner: r.owner, Note: r.note, HeldFor: now.Sub(r.since), Remaining: r.expires.Sub(now),
		Waiters: slices.Clone(r.waiters),
		Forced:  r.forced, Reason: r.reason,
	}
}

// held returns the row of c if its owner holds it.
func (t *table) held(c driver.Claim) *row {
	if r := t.rows[c.Name]; r != nil && r.owner == c.Owner && time.Now().Before(r.expires) {
		return r
	}
	return nil
}

func (t *table) Renew(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	return t.each(ctx, cs, func(c driver.Claim, r *row) {
		if end := time.Now().Add(c.TTL); end.After(r.expires) {
			r.expires = end
		}
	})
}

func (t *table) Release(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	found, err := t.each(ctx, cs, func(c driver.Claim, r *row) {
		r.end()
		if c.AtLeast > 0 {
			r.owner, r.expires = c.Owner+driver.KeptOwner, time.Now().Add(c.AtLeast)
		}
		t.notify(c.Name, r)
	})
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, c := range cs {
		if r := t.rows[c.Name]; r != nil && slices.Contains(r.waiters, c.Owner) {
			found[i] = true
			r.waiters = slices.DeleteFunc(r.waiters, func(owner string) bool { return owner == c.Owner })
			t.notify(c.Name, r)
		}
	}
	return found, nil
}

// end ends the lease: waiters have their turns from now on.
func (r *row) end() {
	if r.owner, r.expires = "", (time.Time{}); len(r.waiters) > 0 {
		r.expires = time.Now()
	}
}

// notify notifies listeners whose turn it is.
func (t *table) notify(name string, r *row) {
	for l := range t.links {
		l.heard(name, slices.Concat(r.waiters, []string{""})[0])
	}
}

func (t *table) each(ctx context.Context, cs []driver.Claim, do func(driver.Claim, *row)) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make([]bool, len(cs))
	for i, c := range cs {
		if r := t.held(c); r != nil {
			found[i] = true
			do(c, r)
		}
	}
	return found, nil
}

func (t *table) Read(ctx context.Context, names []string) ([]rows.Row, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made.looks++
	answers := make([]rows.Row, len(names))
	for i, name := range names {
		if r := t.rows[name]; r != nil {
			answers[i] = r.seen(time.Now())
		}
	}
	return answers, nil
}

func (t *table) Page(ctx context.Context, from, after string, most int) (page []rows.KeyedRow, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made.pages++
	if t.made.pages == t.conflict {
		return nil, rows.ErrConflict
	}
	for name, r := range t.rows {
		key := rows.Escape(name)
		if strings.HasPrefix(name, "tx:") {
			key = rows.TxName(name[3:])
		}
		if key >= from && key > after {
			page = append(page, rows.KeyedRow{Key: key, Row: r.seen(time.Now())})
		}
	}
	slices.SortFunc(page, func(a, b rows.KeyedRow) int { return strings.Compare(a.Key, b.Key) })
	return page[:min(len(page), most)], nil
}

func (t *table) Force(ctx context.Context, name, owner string, token uint64, reason string) (ended bool, err error) {
	if t.forcing != nil {
		t.forcing()
	}
	if r := t.rows[name]; r == nil || r.token != token {
		return false, ctx.Err()
	}
	found, err := t.each(ctx, []driver.Claim{{Name: name, Owner: owner}}, func(c driver.Claim, r *row) {
		r.end()
		r.forced, r.reason = owner, reason
		t.notify(c.Name, r)
	})
	return err == nil && found[0], err
}

func (t *table) Listen(ctx context.Context, live func(), heard func(name, next string)) error {
	l := &link{heard: heard, cut: make(chan struct{})}
	t.mu.Lock()
	t.made.listens++
	if t.down != nil {
		defer t.mu.Unlock()
		return t.down
	}
	connect := t.connect
	t.mu.Unlock()
	if !retry.Sleep(ctx, connect) {
		return ctx.Err()
	}
	t.mu.Lock()
	t.links[l] = true
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.links, l)
	}()
	live()
	select {
	case <-l.cut:
		return errors.New("the link is cut")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change runs do, which changes the table.
func (t *table) change(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do()
}

// cut cuts all connections that listen.
func (t *table) cut() {
	t.change(func() {
		for l := range t.links {
			close(l.cut)
			delete(t.links, l)
		}
	})
}
