package sqltest

import (
	"cmp"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
)

// ShedLockTable is a table of ShedLock as a public project makes it, or another one.
type ShedLockTable struct {
	File   string   // in testdata/shedlock, without .sql; or the name of the case
	Create string   // what makes it, if that is in no file
	Table  string   // its name, if that is not shedlock
	Params string   // of the connections that use it
	Lock   string   // the name of the lock, if that is not job
	Want   []string // of the refusal; none: locks are kept in it
	Nulls  bool     // a row may have a name alone
}

// Name is the name of the table.
func (s ShedLockTable) Name() string { return cmp.Or(s.Table, "shedlock") }

// Test makes the table in db and takes a lock over b, or sees that b refuses to.
func (s ShedLockTable) Test(t *testing.T, db *sql.DB, b shedLocks) {
	t.Helper()
	create := s.Create
	if create == "" {
		text, err := os.ReadFile(filepath.Join("testdata", "shedlock", s.File+".sql"))
		if err != nil {
			t.Fatal(err)
		}
		create = string(text)
	}
	for statement := range strings.SplitSeq(strings.TrimRight(create, "; \n"), ";") {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if s.Want != nil {
		_, err := b.Try(t.Context(), s.claim(1))
		s.refusal(t, err)
		return
	}
	if s.Nulls {
		if _, err := db.Exec("INSERT INTO " + s.Name() + " (name) VALUES ('job')"); err != nil {
			t.Fatal(err)
		}
	}
	s.holds(t, b)
	if s.Nulls {
		s.emptied(t, db, b)
	}
}

// emptied is about rows of which an operator has emptied columns: without lock_until the
// name is free, without the others it is a hold like others.
func (s ShedLockTable) emptied(t *testing.T, db *sql.DB, b shedLocks) {
	t.Helper()
	console := admin.New(b)
	for columns, free := range map[string]bool{
		"lock_until = TIMESTAMP '2037-01-01 00:00:00', locked_at = NULL, locked_by = NULL": false,
		"lock_until = NULL, locked_at = NULL, locked_by = NULL":                            true,
	} {
		if _, err := db.Exec("UPDATE " + s.Name() + " SET " + columns); err != nil {
			t.Fatal(err)
		}
		if held, err := b.Renew(t.Context(), []driver.Claim{s.claim(2)}); err != nil || !errors.Is(held[0].Err, driver.ErrGone) {
			t.Errorf("Renew after %s: got %+v and error %v, want that it is gone", columns, held, err)
		}
		found, err := console.Get(t.Context(), "job")
		if err != nil || (found[0].Kind == "") != free {
			t.Errorf("Get after %s: got %+v and error %v, want free %v", columns, found, err, free)
		}
		if free {
			continue
		}
		if err := console.ForceUnlock(t.Context(), "job", found[0].Holds[0].Holder, "test"); err != nil {
			t.Errorf("ForceUnlock after %s: got error %v", columns, err)
		}
	}
}

// shedLocks is what both backends are.
type shedLocks interface {
	driver.Backend
	admin.Source
}

func (s ShedLockTable) claim(seq uint64) driver.Claim { return Claim(cmp.Or(s.Lock, "job"), seq) }

// ShedLockLacks is about what the layout cannot do. There is no table for b, and lockTx is
// what LockTx returned.
func ShedLockLacks(t *testing.T, b driver.Backend, lockTx error) {
	t.Helper()
	if _, err := b.Try(t.Context(), Claim("job", 1)); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "CREATE TABLE") {
		t.Errorf("Try without a table: got error %v, want a refusal with the statement", err)
	}
	if !errors.Is(lockTx, errors.ErrUnsupported) {
		t.Errorf("LockTx: got error %v, want errors.ErrUnsupported", lockTx)
	}
	if caps := b.Info().Caps; caps.Fencing || caps.Wakes || !caps.AtLeast {
		t.Errorf("Caps: got %+v, want neither tokens nor wake-ups, and AtLeast", caps)
	}
}

// refusal checks that err is a refusal of ours, with the texts.
func (s ShedLockTable) refusal(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || strings.Contains(err.Error(), "refused by the store") {
		t.Errorf("Try: got error %v, want a refusal, and not one of the store", err)
		return
	}
	for _, text := range s.Want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("Try: got error %v, want %q in it", err, text)
		}
	}
}

// holds takes a lock, renews, lists and releases it, and takes it again.
func (s ShedLockTable) holds(t *testing.T, b shedLocks) {
	t.Helper()
	first, second := s.claim(1), s.claim(2)
	if out, err := b.Try(t.Context(), first); err != nil || !out.Granted || out.Token != 0 {
		t.Fatalf("Try: got %+v and error %v, want a grant without a token", out, err)
	}
	first.TTL = time.Hour
	if held, err := b.Renew(t.Context(), []driver.Claim{first}); err != nil || held[0].Err != nil {
		t.Errorf("Renew: got %+v and error %v, want that it is held", held, err)
	}
	if found, err := admin.New(b).Get(t.Context(), first.Name); err != nil || found[0].Holders != 1 || found[0].Holds[0].Remaining < first.TTL/2 {
		t.Errorf("Get after a renewal for an hour: got %+v and error %v", found, err)
	}
	if out, err := b.Try(t.Context(), second); err != nil || out.Granted {
		t.Errorf("Try while it is held: got %+v and error %v, want no grant", out, err)
	}
	if err := b.Release(t.Context(), first); err != nil {
		t.Error(err)
	}
	await.Until(t, time.Second, "a grant after the release", func() bool { // which may be rounded up to a millisecond
		out, err := b.Try(t.Context(), second)
		return err == nil && out.Granted
	})
}
