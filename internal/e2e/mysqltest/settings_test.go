package mysqltest

import (
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// TestSettings takes locks in each mode of SQL that the server lists, and with each
// setting of a session that is on or off. They work, or are refused.
func TestSettings(t *testing.T) {
	dsn, admin, oracle := sqltest.StartMySQL(t)
	dsn = database(t, dsn, admin)
	if err := mysqlhold.New(newDB(t, dsn), nil).CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	settings := [][2]string{{"sql_select_limit", "1"}, {"sql_big_selects", "OFF"}}
	for _, mode := range modes(oracle) {
		settings = append(settings, [2]string{"sql_mode", mode})
	}
	rows, err := admin.Query("SHOW SESSION VARIABLES WHERE Value IN ('ON', 'OFF') AND Variable_name NOT IN ('tx_read_only', 'transaction_read_only', 'require_row_format')") // which are for replicas: a lock waits
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			t.Fatal(err)
		}
		other := "ON"
		if value == "ON" {
			other = "OFF"
		}
		settings = append(settings, [2]string{name, other})
	}
	works, refused, fixed := 0, []string(nil), 0
	for _, s := range settings {
		if _, err := admin.Exec("SET SESSION " + s[0] + " = '" + s[1] + "'"); err != nil && s[0] != "sql_select_limit" {
			fixed++ // no setting of a session, or not for everybody
			continue
		}
		switch err := tryWith(t, dsn, s[0], s[1]); {
		case errors.Is(err, driver.ErrRefused):
			refused = append(refused, s[0]+"="+s[1])
		case err != nil:
			t.Errorf("%s=%s: %v", s[0], s[1], err)
		default:
			works++
		}
	}
	t.Logf("%d settings work, %d cannot be set, refused: %q", works, fixed, refused)
	want := []string{"sql_mode=EMPTY_STRING_IS_NULL", "autocommit=OFF"}
	if oracle {
		want = want[1:]
	}
	if works < 40 || !slices.Equal(refused, want) {
		t.Errorf("%d settings work, refused: %q", works, refused)
	}
}

// modes are those of SQL in the manuals of the servers.
func modes(oracle bool) []string {
	all := []string{
		"", "ALLOW_INVALID_DATES", "ANSI", "ANSI_QUOTES", "ERROR_FOR_DIVISION_BY_ZERO", "HIGH_NOT_PRECEDENCE", "IGNORE_SPACE",
		"NO_AUTO_VALUE_ON_ZERO", "NO_BACKSLASH_ESCAPES", "NO_DIR_IN_CREATE", "NO_ENGINE_SUBSTITUTION", "NO_UNSIGNED_SUBTRACTION",
		"NO_ZERO_DATE", "NO_ZERO_IN_DATE", "ONLY_FULL_GROUP_BY", "PAD_CHAR_TO_FULL_LENGTH", "PIPES_AS_CONCAT", "REAL_AS_FLOAT",
		"STRICT_ALL_TABLES", "STRICT_TRANS_TABLES", "TRADITIONAL",
	}
	if oracle {
		return append(all, "TIME_TRUNCATE_FRACTIONAL")
	}
	return append(all, "DB2", "EMPTY_STRING_IS_NULL", "MAXDB", "MSSQL", "MYSQL323", "MYSQL40", "NO_AUTO_CREATE_USER", "NO_FIELD_OPTIONS",
		"NO_KEY_OPTIONS", "NO_TABLE_OPTIONS", "ORACLE", "POSTGRESQL", "SIMULTANEOUS_ASSIGNMENT", "TIME_ROUND_FRACTIONAL")
}

// tryWith has two clients with a setting exclude each other.
func tryWith(t *testing.T, dsn, name, value string) error {
	t.Helper()
	if name != "sql_select_limit" {
		value = "'" + value + "'"
	}
	db := newDB(t, dsn+"?"+name+"="+url.QueryEscape(value))
	defer db.Close()
	ctx := await.Context(t, 10*time.Second)
	b := mysqlhold.New(db, nil)
	held, err := holdfast.New(b, nil).Lock(ctx, name)
	if err != nil {
		return err
	}
	if _, err := holdfast.New(b, nil).TryLock(ctx, name); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("%s=%s: a second holder: got %v, want ErrBusy", name, value, err)
	}
	return held.Unlock()
}
