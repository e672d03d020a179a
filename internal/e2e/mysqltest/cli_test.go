package mysqltest

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/e2e/storecli"
)

// The table of ShedLock is the one that a parameter of the URL asks for.
func TestCLIOverShedLock(t *testing.T) {
	at := database(t)
	_, socket, _ := strings.Cut(at, "unix(")
	socket, path, _ := strings.Cut(socket, ")")
	admin := newDB(t, at)
	execute(t, admin, "CREATE USER IF NOT EXISTS app@localhost", "GRANT ALL ON "+path[1:]+".* TO app@localhost")
	tool := storecli.New(t, storecli.Store{Network: "unix", Addr: socket, Name: "MySQL", Backend: "mysql", URL: func(addr string) string {
		return "mysql://app@" + addr + path + "?layout=shedlock"
	}})
	tool.Start("run", "-n", "job", "--", "true").Want(77, "there is no table `shedlock`", "lock_until", "create=true")
	tool.Start("run", "-n", "--url", strings.Replace(tool.URL(), "layout=shedlock", "layout=java", 1), "job", "--", "true").Want(64, "neither lease nor shedlock")
	tool.Start("run", "-n", "--url", tool.URL()+"&create=true", "job", "--", "true").Want(0)
	tool.Start("run", "-n", "--url", strings.Replace(tool.URL(), "layout=shedlock", "layout=lease", 1), "job", "--", "true").Want(77, "there is no table `holdfast_locks`")
	tool.RunShedLock(t, admin)
}

// The command line tool in front of MySQL or MariaDB, built and run as users do. Package
// storestest has what it does on every store.
func TestCLI(t *testing.T) {
	cert, key := sqltest.Certificate(t, "mysql")
	server := sqltest.Start(t, sqltest.RunMySQL, "--ssl-ca="+cert, "--ssl-cert="+cert, "--ssl-key="+key)
	admin, dsn := newDB(t, server.Name), server.Name
	_, socket, _ := strings.Cut(dsn, "unix(")
	socket, _, _ = strings.Cut(socket, ")")
	execute(t, admin, "CREATE USER app@'%' IDENTIFIED BY 's3/cr@t'", "GRANT ALL ON test.* TO app@'%'",
		"CREATE USER certified@'%' REQUIRE X509", "GRANT ALL ON test.* TO certified@'%'")
	tool := storecli.New(t, storecli.Store{Network: "tcp", Addr: server.Addr(), URL: func(addr string) string {
		return "mysql://app:s3%2Fcr%40t@" + addr + "/test"
	}})
	lock := []string{"run", "-n", "setup", "--", "true"}
	with := func(url string) []string { return append([]string{"run", "--url", url}, lock[1:]...) }
	tool.Start(lock...).Want(77, "there is no table `holdfast_locks`", "CREATE TABLE IF NOT EXISTS", "create=true")
	tool.Start(with(tool.URL() + "?create=true")...).Want(0)
	tool.Start(lock...).Want(0)
	tool.Start(with("mysql://root@/test?socket=" + socket)...).Want(0)
	tool.Start(with(strings.Replace(tool.URL(), "s3", "x", 1))...).Want(77, "Access denied")
	tool.Start(with(strings.Replace(tool.URL(), "/test", "/absent", 1))...).Want(77, "denied")
	tool.Start(with(tool.URL()+"?tls=true")...).Want(69, "certificate")
	tool.Start(with(tool.URL() + "?tls=skip-verify")...).Want(0)
	over := func(flags ...string) []string { return append(append([]string{"run"}, flags...), lock[1:]...) }
	tool.Start(over("--cacert", cert)...).Want(0)
	tool.Start(over("--insecure")...).Want(0)
	tool.Start(over("--cacert", cert, "--sni", "db.example")...).Want(69, "db.example")
	certified := "mysql://certified@" + server.Addr() + "/test"
	tool.Start(over("--url", certified, "--cacert", cert, "--cert", cert, "--key", key)...).Want(0)
	tool.Start(over("--url", certified, "--cacert", cert)...).Want(77, "Access denied")
	tool.Start("doctor", "-v", "--fail-on", "never").Want(0, "ok       clock: the clock of the server is ")
}
