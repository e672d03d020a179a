package pgtest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// TestShedLockPublicTables makes tables as public projects make them.
func TestShedLockPublicTables(t *testing.T) {
	server, db := start(t)
	for _, table := range []sqltest.ShedLockTable{
		{File: "nulls", Table: "t_shedlock", Nulls: true},
		{File: "unique_index", Table: "shedlock", Nulls: true},
		{File: "order", Table: "shedlock"},
		{File: "no_lengths", Table: "shedlock"},
		{File: "schema", Table: "scheduling.shedlock"},
		{File: "no_key", Table: "shedlock", Want: []string{"name has no primary key and no unique index"}},
		{File: "zone", Table: "shedlock", Want: []string{"lock_until is timestamp with time zone", "locked_at is timestamp with time zone", "time zone of the session"}},
		{File: "capitals", Table: "SHEDLOCK", Want: []string{"there is no column lock_until, but LOCK_UNTIL", "there is no column name, but NAME"}},
	} {
		t.Run(table.File, func(t *testing.T) {
			t.Parallel()
			url := database(t, server, db)
			b := pghold.New(newPool(t, url), &pghold.Options{Layout: pghold.ShedLock, Table: table.Table})
			table.Test(t, newDB(t, url), b)
		})
	}
}
