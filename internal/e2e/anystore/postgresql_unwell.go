package anystore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
)

func unwellPostgreSQL(t *testing.T, ready func(url string)) []Unwell {
	pg := sqltest.Start(t, sqltest.RunPostgreSQL)
	ready(postgreSQLAt(pg.Addr()) + "&create=true")
	standby := pg.Standby(t, pg.Addr())
	frozen := sqltest.Start(t, sqltest.RunPostgreSQL)
	freeze(t, frozen)
	full := sqltest.Start(t, sqltest.RunPostgreSQL)
	ready(postgreSQLAt(full.Addr()) + "&create=true")
	execute(t, full, "CREATE ROLE app LOGIN", // a trigger answers as a full disk does
		"CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END $$",
		"CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON holdfast_locks EXECUTE FUNCTION full_disk()")
	down := sqltest.Start(t, sqltest.RunPostgreSQL)
	_, pooled := sqltest.StartPgBouncer(t, down.Name)
	down.Kill()
	const plain = "?sslmode=disable"
	return []Unwell{
		{"full", postgreSQLAt(full.Addr()), "could not extend file", 69, true},
		{"missing right", "postgres://app@" + full.Addr() + "/postgres" + plain, "permission denied", 77, false},
		{"a pooler without its server", pooled, "server login|timeout", 69, false},
		{"frozen", postgreSQLAt(frozen.Addr()), "not answer|no answer|timeout", 69, false},
		{"unknown user", "postgres://nobody@" + pg.Addr() + "/postgres" + plain, `role "nobody" does not exist`, 77, false},
		{"read-only", postgreSQLAt(standby.Addr()), "read-only|standby|replica", 69, true},
	}
}
