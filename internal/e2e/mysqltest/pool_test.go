package mysqltest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// TestExhaustedPool has a lock lost for want of a connection.
func TestExhaustedPool(t *testing.T) {
	db := newDB(t, database(t))
	db.SetMaxOpenConns(2)
	sqltest.Exhausted(t, holdfast.New(sqltest.Prepared(t, mysqlhold.New(db, nil)), &holdfast.Options{TTL: time.Second}), db)
}
