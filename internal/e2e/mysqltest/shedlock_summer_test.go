package mysqltest

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// clockedSessions makes connections whose sessions show one time, until `set` changes it. A pool
// that keeps no connection sees each change at once.
type clockedSessions struct {
	config *mysql.Config
	at     atomic.Int64 // Unix time
}

func (c *clockedSessions) Driver() sqldriver.Driver { return mysql.MySQLDriver{} }

func (c *clockedSessions) Connect(ctx context.Context) (sqldriver.Conn, error) {
	config := c.config.Clone()
	config.Params = map[string]string{"timestamp": strconv.FormatInt(c.at.Load(), 10)}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return connector.Connect(ctx)
}

// TestShedLockInSummerTime has a server in a time zone in which summer time begins. Its clock
// shows, in UTC, the hour that does not exist in that zone. The table of ShedLock's
// documentation keeps no lock then, and the error says why. A holder that comes into that hour
// is notified of its loss, with the reason. With the type DATETIME nothing happens.
func TestShedLockInSummerTime(t *testing.T) {
	const ttl = 2 * time.Second
	begins := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)  // 02:00 of the zone becomes 03:00
	missing := time.Date(2026, 3, 29, 2, 0, 0, 0, time.UTC) // as a text, no time of the zone
	dsn, admin := sqltest.StartMariaDB(t)
	for _, statement := range []string{
		"INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (7000, 'N')",
		"INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('Test/Summer', 7000)",
		"INSERT INTO mysql.time_zone_transition_type VALUES (7000, 0, 3600, 0, 'T'), (7000, 1, 7200, 1, 'TS')",
		fmt.Sprintf("INSERT INTO mysql.time_zone_transition VALUES (7000, -2147483647, 0), (7000, %d, 1)", begins.Unix()),
		"SET GLOBAL time_zone = 'Test/Summer'",
		documented,
		"CREATE TABLE zoneless (name VARCHAR(64) PRIMARY KEY, lock_until DATETIME(3) NOT NULL, locked_at DATETIME(3) NOT NULL, locked_by VARCHAR(255) NOT NULL)",
	} {
		if _, err := admin.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	sessions := &clockedSessions{config: config}
	db := sql.OpenDB(sessions)
	db.SetMaxIdleConns(-1)
	t.Cleanup(func() { _ = db.Close() })

	l := holdfast.New(mysqlhold.New(db, shed()), &holdfast.Options{TTL: ttl})
	sessions.at.Store(missing.Add(-ttl - time.Second).Unix())
	held := must.Lock(t, l, "held")
	sessions.at.Store(missing.Add(-time.Second).Unix()) // the lease would end in that hour
	select {
	case <-held.Context(t.Context()).Done():
	case <-time.After(time.Minute):
		t.Fatal("the holder was not notified")
	}
	var lost *holdfast.LostError
	if err := held.Err(); !errors.As(err, &lost) || lost.Reason != driver.ReasonRefused || !strings.Contains(err.Error(), "summer time begins") {
		t.Errorf("the holder: got %v, want the reason", err)
	}
	_, err = l.TryLock(t.Context(), "job")
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "(Test/Summer) does not have this hour, because summer time begins") {
		t.Errorf("got error %v, want a refusal with the zone", err)
	}
	zoneless := holdfast.New(mysqlhold.New(db, &mysqlhold.Options{Layout: mysqlhold.ShedLock, Table: "zoneless"}), &holdfast.Options{TTL: ttl})
	must.Unlock(t, must.Lock(t, zoneless, "job"))

	sessions.at.Store(missing.Add(time.Hour).Unix())
	must.Unlock(t, must.Lock(t, l, "job"))
	must.Drain(t, l)
	must.Drain(t, zoneless)
}
