package storestest

import (
	"context"
	"database/sql"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/pghold"
)

// TestStorePages does what the page of each store says, block by block: it adds the module,
// writes the program, makes what an administrator makes, and runs the program with the
// permissions of the page. Then it takes these permissions away, one at a time.
func TestStorePages(t *testing.T) {
	await.NotShort(t, "compiles the programs of the pages")
	all := map[string]func(*testing.T){
		"redis": redisPage, "etcd": etcdPage, "zookeeper": zooKeeperPage, "postgresql": postgreSQLPage,
		"mariadb": func(t *testing.T) { mySQLPage(t, sqltest.RunMariaDB) },
	}
	if os.Getenv(sqltest.MySQLEnv) != "" {
		all["mysql"] = func(t *testing.T) { mySQLPage(t, sqltest.RunMySQL) }
	}
	for name, page := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page(t)
		})
	}
}

// reader is a reader of a page, in the module of the quickstart.
type reader struct {
	*testing.T
	dir         string
	env         []string
	local, addr string            // the server of the page, and that of the test
	administer  func(text string) // does what a block says that is neither Go nor of a shell
	start       string            // the line that runs the program
}

// newReader returns a reader who has made the module of the quickstart. A page is for the
// server local, the test has addr.
func newReader(t *testing.T, local, addr string) *reader {
	t.Helper()
	home := t.TempDir()
	root, err := filepath.Abs("../../..")
	if err == nil {
		err = os.Symlink(root, filepath.Join(home, "holdfast"))
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{T: t, dir: home, local: local, addr: addr, env: append(os.Environ(), "GOWORK=off")}
	for _, b := range pages.Of(t, "docs/quickstart.md") {
		if b.Language == "sh" && strings.Contains(b.Text, "\ngo mod init ") {
			r.sh(regexp.MustCompile(`(?m)^git clone .*\n`).ReplaceAllString(b.Text, ""))
			r.dir = filepath.Join(home, "shop")
			return r
		}
	}
	t.Fatal("docs/quickstart.md does not make a module")
	return nil
}

// follow does what all blocks of a page say, in their order.
func (r *reader) follow(page string) {
	r.Helper()
	for _, b := range pages.Of(r, page) {
		switch b.Language {
		case "go":
			r.write(b.Text)
		case "sh":
			r.enter(b.Text)
		default:
			if r.administer == nil {
				r.Fatalf("%s: a block in the language %q:\n%s", page, b.Language, b.Text)
			}
			r.administer(b.Text)
		}
	}
	if r.start == "" {
		r.Fatalf("%s does not run its program", page)
	}
}

// write makes the file of a program.
func (r *reader) write(program string) {
	r.Helper()
	if formatted, err := format.Source([]byte(program)); err != nil || string(formatted) != program {
		r.Errorf("gofmt would change this program, error %v:\n%s", err, program)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "main.go"), []byte(r.here(program)), 0o600); err != nil {
		r.Fatal(err)
	}
}

// here replaces the server of the page by that of the test.
func (r *reader) here(text string) string { return strings.ReplaceAll(text, r.local, r.addr) }

// enter types the lines of a block. A program that it runs has to get its lock.
func (r *reader) enter(text string) {
	r.Helper()
	said := r.sh(text)
	for line := range strings.Lines(text) {
		if strings.Contains(line, "go run .") {
			r.start = line
			r.wantLock(said)
		}
	}
}

// got is what a program prints that had its lock.
var got = regexp.MustCompile(`(?m)^I have the lock, token (\d+)\ndone, error: <nil>$`)

func (r *reader) wantLock(said string) (token string) {
	r.Helper()
	found := got.FindStringSubmatch(said)
	if found == nil {
		r.Fatalf("got this, want a lock and its release:\n%s", said)
	}
	return found[1]
}

// wantRefusal runs the program, which must not get its lock, and must say why.
func (r *reader) wantRefusal(what, why string) {
	r.Helper()
	if said := r.sh(r.start); got.MatchString(said) || !strings.Contains(said, why) {
		r.Errorf("%s: got this, want %q:\n%s", what, why, said)
	}
}

// sh runs lines, each of which has to succeed, and returns what they printed.
func (r *reader) sh(lines string) string {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", pages.TidyRetries+"\n"+r.here(lines))
	cmd.Dir, cmd.Env, cmd.WaitDelay = r.dir, r.env, time.Second
	said, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("%s\n%v\n%s", lines, err, said)
	}
	return string(said)
}

func redisPage(t *testing.T) {
	server := redistest.Start(t)
	r := newReader(t, "localhost:6379", server.Addr())
	r.follow("docs/redis.md")
	// TestProposedRightsAreThoseOfTheDocuments has the other permissions.
	server.Do("ACL", "SETUSER", "holdfast", "-hset")
	r.wantRefusal("without +hset", "+hset")
}

func etcdPage(t *testing.T) {
	server := etcdtest.Start(t)
	addr := strings.TrimPrefix(server.Addr(), "http://")
	r := newReader(t, "localhost:2379", addr)
	r.env = append(r.env, "ETCDCTL_ENDPOINTS="+addr,
		"PATH="+filepath.Dir(server.Control(t).Path)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	r.follow("docs/etcd.md")
	const grants = "readwrite --prefix stock:"
	if text := pages.File(t, "docs/etcd.md"); !strings.Contains(text, " role grant-permission shop "+grants+"\n") {
		t.Fatalf("the page does not grant %q", grants)
	}
	for _, less := range []string{"read --prefix stock:", "write --prefix stock:", "readwrite --prefix stocks:", "readwrite stock:"} {
		r.sh("export ETCDCTL_USER=root:top-secret\netcdctl role delete shop\netcdctl role add shop\n" +
			"etcdctl role grant-permission shop " + less + "\netcdctl user grant-role shop shop\n")
		r.wantRefusal("with "+less, "permission denied")
	}
}

func zooKeeperPage(t *testing.T) {
	r := newReader(t, "localhost:2181", zktest.Start(t).Addr())
	r.follow("docs/zookeeper.md")
	program := pages.First(t, "docs/zookeeper.md", "go")
	for _, p := range []struct{ permission, root, why string }{
		{"zk.PermRead|", "/without-read", "not authenticated"},
		{"zk.PermCreate|", "/without-create", "not authenticated"},
		{"|zk.PermDelete", "/without-delete", "unlock \"stock:42\": not confirmed"},
	} {
		without := strings.Replace(program, p.permission, "", 1)
		if without == program {
			t.Fatalf("the program does not grant %q", p.permission)
		}
		r.write(strings.Replace(without, `"/shop"`, `"`+p.root+`"`, 1)) // nodes keep the permissions that they were made with
		r.wantRefusal("without "+p.permission, p.why)
	}
}

// granted is a statement of a page: permissions, table, user.
var granted = regexp.MustCompile(`(?m)^GRANT ([A-Z, ]+) ON (\S+) TO (\w+);$`)

// database is the server of a page about a database.
type database struct {
	*reader
	page   string
	admin  *sql.DB
	denied string // what the server says to a user who lacks a permission
}

// run does what the page says, and then takes each permission of its GRANT away.
func (d *database) run(schema string) {
	d.Helper()
	bare := strings.NewReplacer("`", "", `"`, "")
	if text := pages.File(d, d.page); !strings.Contains(bare.Replace(text), "\n"+bare.Replace(schema)+";\n") {
		d.Errorf("%s does not have the statement of Schema:\n%s", d.page, schema)
	}
	d.administer = func(text string) {
		for _, statement := range strings.SplitAfter(text, ";\n") {
			if strings.TrimSpace(statement) != "" {
				d.exec(strings.TrimSuffix(statement, ";\n"))
			}
		}
	}
	d.reader.follow(d.page)
	permissions, table, user := d.grant()
	for _, permission := range permissions {
		d.exec("DELETE FROM " + table) // the row of the name is made with INSERT
		d.exec("REVOKE " + permission + " ON " + table + " FROM " + user)
		d.wantRefusal("without "+permission, d.denied)
		d.exec("GRANT " + permission + " ON " + table + " TO " + user)
	}
}

// grant returns what the page grants.
func (d *database) grant() (permissions []string, table, user string) {
	d.Helper()
	found := granted.FindStringSubmatch(pages.File(d, d.page))
	if found == nil {
		d.Fatalf("%s has no GRANT", d.page)
	}
	return strings.Split(found[1], ", "), found[2], found[3]
}

func (d *database) exec(statement string) {
	d.Helper()
	if _, err := d.admin.ExecContext(d.Context(), statement); err != nil {
		d.Fatalf("%s: %v", statement, err)
	}
}

// lockTx takes a lock for a transaction, as the user of the page.
func (d *database) lockTx(db *sql.DB, lock func(context.Context, *sql.Tx, string) error) {
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

// shares runs the program of the page with the table of ShedLock: with a line of
// docs/shedlock.md in place of its own.
func (d *database) shares(own, shed string) {
	d.Helper()
	if !strings.Contains(pages.File(d, "docs/shedlock.md"), shed) {
		d.Errorf("docs/shedlock.md does not have %s", shed)
	}
	program := pages.First(d, d.page, "go")
	with := regexp.MustCompile(own).ReplaceAllLiteralString(program, shed)
	if with == program {
		d.Fatalf("%s: the program does not have %s", d.page, own)
	}
	d.write(with)
	permissions, table, user := d.grant()
	d.exec("GRANT " + strings.Join(permissions, ", ") + " ON " + strings.Replace(table, "holdfast_locks", "shedlock", 1) + " TO " + user)
	if token := d.wantLock(d.sh(d.start)); token != "0" {
		d.Errorf("got the token %s, want none", token)
	}
}

// open returns a pool to a database.
func open(t *testing.T, driver, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func postgreSQLPage(t *testing.T) {
	server := sqltest.Start(t, sqltest.RunPostgreSQL)
	d := &database{reader: newReader(t, "localhost:5432", server.Addr()), page: "docs/postgresql.md", denied: "permission denied"}
	d.admin = open(t, server.Driver, server.Name)
	d.exec("CREATE DATABASE shop")
	at := strings.Replace(server.Name, "/postgres?", "/shop?", 1)
	d.admin = open(t, server.Driver, at)
	pool, err := pgxpool.New(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	d.run(pghold.New(pool, nil).Schema())
	shop := open(t, server.Driver, strings.Replace(at, "test@", "shop:secret@", 1))
	d.lockTx(shop, pghold.NewDB(shop, nil).LockSQLTx)

	if err := pghold.New(pool, &pghold.Options{Layout: pghold.ShedLock}).CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.shares(`backend := .*`, "backend := pghold.New(pool, &pghold.Options{Layout: pghold.ShedLock})")
}

func mySQLPage(t *testing.T, run func(...string) (*sqltest.Server, error)) {
	server := sqltest.Start(t, run)
	d := &database{reader: newReader(t, "localhost:3306", server.Addr()), page: "docs/mysql.md", denied: "command denied"}
	d.admin = open(t, server.Driver, server.Name)
	d.exec("CREATE DATABASE shop")
	d.admin = open(t, server.Driver, strings.TrimSuffix(server.Name, "/test")+"/shop")
	d.run(mysqlhold.New(d.admin, nil).Schema())
	shop := open(t, server.Driver, "shop:secret@tcp("+server.Addr()+")/shop")
	d.lockTx(shop, mysqlhold.New(shop, nil).LockTx)
	d.exec("CREATE USER viewer IDENTIFIED BY 'secret'")
	d.exec("GRANT SELECT ON shop.holdfast_locks TO viewer")
	viewer := mysqlhold.New(open(t, server.Driver, "viewer:secret@tcp("+server.Addr()+")/shop"), nil)
	for _, err := range admin.New(viewer).List(t.Context(), admin.Filter{}) {
		if err != nil {
			t.Errorf("a user who may only read: %v", err)
		}
	}

	if err := mysqlhold.New(d.admin, &mysqlhold.Options{Layout: mysqlhold.ShedLock}).CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.shares(`mysqlhold\.New\(db, nil\)`, "mysqlhold.New(db, &mysqlhold.Options{Layout: mysqlhold.ShedLock})")
}
