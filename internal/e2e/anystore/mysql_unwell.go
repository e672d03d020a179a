package anystore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
)

func unwellMariaDB(t *testing.T, ready func(url string)) []Unwell {
	my := sqltest.Start(t, sqltest.RunMariaDB, "--bind-address=127.0.0.1")
	execute(t, my, "CREATE USER app IDENTIFIED BY 'secret'", "GRANT ALL ON test.* TO app")
	ready("mysql://app:secret@" + my.Addr() + "/test?create=true")
	execute(t, my, "SET GLOBAL read_only = ON")
	frozen := sqltest.Start(t, sqltest.RunMariaDB)
	freeze(t, frozen)
	full := sqltest.Start(t, sqltest.RunMariaDB, "--bind-address=127.0.0.1")
	ready("mysql://root@" + full.Addr() + "/test?create=true")
	execute(t, full, "CREATE USER nobody", "GRANT SELECT ON test.* TO nobody", // triggers answer as a full disk does
		"CREATE TRIGGER full_disk BEFORE INSERT ON holdfast_locks FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'",
		"CREATE TRIGGER full_update BEFORE UPDATE ON holdfast_locks FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'")
	return []Unwell{
		{"full", "mysql://root@" + full.Addr() + "/test", "is full", 69, true},
		{"missing right", "mysql://nobody@" + full.Addr() + "/test", "denied", 77, true},
		{"frozen", "mysql://test@" + frozen.Addr() + "/test", "not answer|no answer|timeout", 69, false},
		{"wrong password", "mysql://app:wrong@" + my.Addr() + "/test", "Access denied", 77, false},
		{"read-only", "mysql://app:secret@" + my.Addr() + "/test", "read-only", 69, true},
	}
}
