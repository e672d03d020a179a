package mysqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// TestSettings takes locks in each mode of SQL, and with each setting of a session that the
// server lists: the other of on and off, 0 and 1 in place of another number. They work, or
// are refused; where they look like a server that is read-only, they wait.
func TestSettings(t *testing.T) {
	dsn := database(t)
	if err := mysqlhold.New(newDB(t, dsn), nil).CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	session := newDB(t, dsn)
	session.SetMaxOpenConns(1)
	var refused, waits []string
	works := 0
	for _, s := range append(modes(t, session), settings(t, session)...) {
		switch err := tryWith(t, dsn, s); {
		case err == nil:
			works++
		case errors.Is(err, driver.ErrRefused):
			refused = append(refused, s.String())
		case errors.Is(err, context.DeadlineExceeded):
			waits = append(waits, s.String())
		default:
			t.Errorf("%s: %v", s, err)
		}
	}
	slices.Sort(refused)
	wantRefused := []string{"autocommit=OFF", "max_join_size=0", "max_join_size=1", "sql_mode=EMPTY_STRING_IS_NULL", "tmp_disk_table_size=0", "tmp_disk_table_size=1"}
	wantWaits := []string{"max_session_mem_used=0", "max_session_mem_used=1", "tx_read_only=ON"}
	if oracle() {
		wantRefused, wantWaits = []string{"autocommit=OFF", "max_join_size=0", "max_join_size=1", "require_row_format=ON"}, []string{"transaction_read_only=ON"}
	}
	t.Logf("%d settings work", works)
	if works < 150 || !slices.Equal(refused, wantRefused) || !slices.Equal(waits, wantWaits) {
		t.Errorf("%d settings work, refused: %q, waiting: %q", works, refused, waits)
	}
}

// setting is one of a session.
type setting struct{ name, value string }

func (s setting) String() string { return s.name + "=" + s.value }

// literal returns the value as a statement has it.
func (s setting) literal() string {
	if _, err := strconv.ParseUint(s.value, 10, 64); err == nil {
		return s.value
	}
	return "'" + s.value + "'"
}

// modes returns the modes of SQL, each alone. The server names them by their bits.
func modes(t *testing.T, session *sql.DB) []setting {
	t.Helper()
	all := []setting{{"sql_mode", ""}}
	for bit := range 63 {
		if _, err := session.Exec(fmt.Sprintf("SET SESSION sql_mode = %d", uint64(1)<<bit)); err != nil {
			continue // it has no such mode
		}
		var name string
		if err := session.QueryRow("SELECT @@SESSION.sql_mode").Scan(&name); err != nil {
			t.Fatal(err)
		}
		all = append(all, setting{"sql_mode", name})
	}
	if len(all) < 15 {
		t.Errorf("only %d modes of SQL: %v", len(all), all)
	}
	return all
}

// settings returns those of a session that can be set, with other values than they have.
func settings(t *testing.T, session *sql.DB) []setting {
	t.Helper()
	rows, err := session.Query("SHOW SESSION VARIABLES WHERE Variable_name <> 'sql_mode'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []setting
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			t.Fatal(err)
		}
		switch _, err := strconv.ParseFloat(value, 64); {
		case value == "ON":
			all = append(all, setting{name, "OFF"})
		case value == "OFF":
			all = append(all, setting{name, "ON"})
		case err == nil:
			all = append(all, setting{name, "0"}, setting{name, "1"})
		}
	}
	return slices.DeleteFunc(all, func(s setting) bool {
		_, err := session.Exec("SET SESSION " + s.name + " = " + s.literal())
		return err != nil && s.name != "sql_select_limit" // of the server, or not for everybody
	})
}

// tryWith has two clients with a setting exclude each other.
func tryWith(t *testing.T, dsn string, s setting) error {
	t.Helper()
	db := newDB(t, dsn+"?"+s.name+"="+url.QueryEscape(s.literal()))
	defer db.Close()
	b := mysqlhold.New(db, nil)
	held, err := holdfast.New(b, nil).Lock(await.Context(t, time.Second), s.name)
	if err != nil {
		return err
	}
	if _, err := holdfast.New(b, nil).TryLock(await.Context(t, 10*time.Second), s.name); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("%s: a second holder: got %v, want ErrBusy", s, err)
	}
	return held.Unlock()
}
