package pgtest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// TestShedLockTables makes tables as public projects make them, and others.
func TestShedLockTables(t *testing.T) {
	const others = ", locked_at timestamp NOT NULL, locked_by text NOT NULL"
	for _, table := range []sqltest.ShedLockTable{
		{File: "nulls", Table: "t_shedlock", Nulls: true},
		{File: "unique_index", Nulls: true},
		{File: "order"},
		{File: "no_lengths"},
		{File: "schema", Table: "scheduling.shedlock"},
		{File: "no_key", Want: []string{"name has no primary key and no unique index"}},
		{File: "zone", Want: []string{"lock_until is timestamp with time zone", "locked_at is timestamp with time zone", "time zone of the session"}},
		{File: "capitals", Table: "SHEDLOCK", Want: []string{"there is no column lock_until, but LOCK_UNTIL", "there is no column name, but NAME"}},
		{File: "milliseconds", Create: "CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp(3) NOT NULL, locked_at timestamp(3) NOT NULL, locked_by varchar(255) NOT NULL)"},
		{File: "more", Create: "CREATE TABLE shedlock (name text PRIMARY KEY, lock_until timestamp NOT NULL, token bigint NOT NULL DEFAULT 0" + others + ")"},
		{File: "seconds", Create: "CREATE TABLE shedlock (name text PRIMARY KEY, lock_until timestamp(0) NOT NULL" + others + ")", Want: []string{"lock_until"}},
		{File: "short", Create: "CREATE TABLE shedlock (name text PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(40) NOT NULL)", Want: []string{"locked_by"}},
		{File: "needed", Create: "CREATE TABLE shedlock (name text PRIMARY KEY, lock_until timestamp NOT NULL, job text NOT NULL" + others + ")", Want: []string{"job"}},
	} {
		t.Run(table.File, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			b := pghold.New(newPool(t, url), &pghold.Options{Layout: pghold.ShedLock, Table: table.Name()})
			table.Test(t, newDB(t, url), b)
		})
	}
	b := pghold.New(newPool(t, database(t)), shed())
	sqltest.ShedLockLacks(t, b, b.LockTx(t.Context(), nil, "job"))
}
