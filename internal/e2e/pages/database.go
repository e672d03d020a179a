package pages

import (
	"context"
	"database/sql"
	"regexp"
	"strings"
	"testing"
)

// granted is a statement of a page: permissions, table, user.
const granted = `(?m)^GRANT ([A-Z, ]+) ON (\S+) TO (\w+);$`

// Database is the server of a page about a database.
type Database struct {
	*Reader
	Page   string
	Admin  *sql.DB
	Denied string // what the server says to a user who lacks a permission
}

// Run does what the page says, and then takes each permission of its GRANT away.
func (d *Database) Run(schema string) {
	d.Helper()
	bare := strings.NewReplacer("`", "", `"`, "")
	if text := File(d, d.Page); !strings.Contains(bare.Replace(text), "\n"+bare.Replace(schema)+";\n") {
		d.Errorf("%s does not have the statement of Schema:\n%s", d.Page, schema)
	}
	d.Administer = func(text string) {
		for _, statement := range strings.SplitAfter(text, ";\n") {
			if strings.TrimSpace(statement) != "" {
				d.Exec(strings.TrimSuffix(statement, ";\n"))
			}
		}
	}
	d.Follow(d.Page)
	permissions, table, user := d.grant()
	for _, permission := range permissions {
		d.Exec("DELETE FROM " + table) // the row of the name is made with INSERT
		d.Exec("REVOKE " + permission + " ON " + table + " FROM " + user)
		d.WantRefusal("without "+permission, d.Denied)
		d.Exec("GRANT " + permission + " ON " + table + " TO " + user)
	}
}

// grant returns what the page grants.
func (d *Database) grant() (permissions []string, table, user string) {
	d.Helper()
	found := regexp.MustCompile(granted).FindStringSubmatch(File(d, d.Page))
	if found == nil {
		d.Fatalf("%s has no GRANT", d.Page)
	}
	return strings.Split(found[1], ", "), found[2], found[3]
}

// Exec executes a statement of an administrator.
func (d *Database) Exec(statement string) {
	d.Helper()
	if _, err := d.Admin.ExecContext(d.Context(), statement); err != nil {
		d.Fatalf("%s: %v", statement, err)
	}
}

// LockTx takes a lock for a transaction, as the user of the page.
func (d *Database) LockTx(db *sql.DB, lock func(context.Context, *sql.Tx, string) error) {
	d.Helper()
	tx, err := db.BeginTx(d.Context(), nil)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := lock(d.Context(), tx, "stock:43"); err != nil {
		d.Errorf("LockTx: %v", err)
	}
}

// Shares runs the program of the page with the table of ShedLock: with a line of
// docs/shedlock.md in place of its own.
func (d *Database) Shares(own, shed string) {
	d.Helper()
	if !strings.Contains(File(d, "docs/shedlock.md"), shed) {
		d.Errorf("docs/shedlock.md does not have %s", shed)
	}
	program := First(d, d.Page, "go")
	with := regexp.MustCompile(own).ReplaceAllLiteralString(program, shed)
	if with == program {
		d.Fatalf("%s: the program does not have %s", d.Page, own)
	}
	d.Write(with)
	permissions, table, user := d.grant()
	d.Exec("GRANT " + strings.Join(permissions, ", ") + " ON " + strings.Replace(table, "holdfast_locks", "shedlock", 1) + " TO " + user)
	if token := d.wantLock(d.Sh(d.start)); token != "0" {
		d.Errorf("got the token %s, want none", token)
	}
}

// Pool returns a pool to a database, which t closes.
func Pool(t *testing.T, driver, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
