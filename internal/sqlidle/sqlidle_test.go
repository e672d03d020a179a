package sqlidle_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlidle"
)

// A call that times out makes the Pool test all idle connections, and close those that are
// silent. Another error does not.
func TestNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		db := sql.OpenDB(s)
		defer db.Close()
		const idle = 12
		db.SetMaxIdleConns(idle)
		var all []*sql.Conn
		for range idle {
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		for _, c := range all {
			_ = c.Close()
		}
		p := sqlidle.New(db)
		s.silent.Store(true)
		p.Noted(errors.New("refused"))
		synctest.Wait()
		if n := db.Stats().Idle; n != idle {
			t.Errorf("after an error that is an answer: %d idle connections, want %d", n, idle)
		}
		p.Noted(fmt.Errorf("renew: %w", context.DeadlineExceeded))
		p.Noted(context.DeadlineExceeded) // too soon for another time
		time.Sleep(time.Second)           // the limit of the pings is shorter
		synctest.Wait()
		if n := s.pings.Load(); n != idle || db.Stats().Idle != 0 || s.closed.Load() != idle {
			t.Errorf("%d pings, and %d idle connections are left, want %d and 0", n, db.Stats().Idle, idle)
		}
	})
}
