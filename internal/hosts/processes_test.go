package hosts

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// migratorVar is the environment of a process that migrates: a migrator as JSON.
const migratorVar = "HOLDFAST_TEST_MIGRATOR"

// migrator is such a process.
type migrator struct {
	File  string // of SQLite
	Redis string // of the lock; "" for none
	Stops bool   // in its first step, until its input ends
}

// stopping is a Driver that stops before it runs a step, when its database says already that a
// step has begun.
type stopping struct{ database.Driver }

func (s stopping) Run(step io.Reader) error {
	fmt.Println("inside")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return s.Driver.Run(step)
}

// main prints a line before it migrates, one in a step where it stops, and one at its end.
func (m *migrator) main() error {
	driver, err := (&sqlite.Sqlite{}).Open("sqlite://" + m.File + "?_pragma=busy_timeout(60000)")
	if err != nil {
		return err
	}
	defer driver.Close()
	if m.Stops {
		driver = stopping{driver}
	}
	migrate := migrateAlone
	if m.Redis != "" {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		conn, err := rueidisconn.Open(ctx, "redis://"+m.Redis, nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		locker := holdfast.New(redishold.New(conn, nil), nil)
		migrate = func(d database.Driver, files fs.FS) error {
			return migrateWithGolangMigrate(locker, d, files, time.Minute)
		}
	}
	fmt.Println("migrates")
	if err := migrate(driver, fstest.MapFS{"1_t.up.sql": {Data: []byte("CREATE TABLE t (a int)")}}); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}

// migrateAlone migrates with no lock but the driver's own.
func migrateAlone(d database.Driver, files fs.FS) error {
	source, err := iofs.New(files, ".")
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", source, "db", d)
	if err != nil {
		return err
	}
	return m.Up()
}

// start starts the process, which ends with t.
func (m *migrator) start(t *testing.T) (in io.Closer, out *bufio.Reader) {
	t.Helper()
	env, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), migratorVar+"="+string(env))
	if in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	return in, sessiontest.StartProgram(t, cmd)
}

// mustSay reads a line.
func mustSay(t *testing.T, out *bufio.Reader, want string) {
	t.Helper()
	if said, err := out.ReadString('\n'); !strings.HasPrefix(said, want) {
		t.Fatalf("got %q, %v, want %q", said, err, want)
	}
}

// Five processes migrate one database, of which one is in the middle when the others begin. SQLite
// has no lock for that. Without one, they take what the first has begun for the rest of a crash,
// and want it repaired by hand.
func TestProcessesMigrate(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr()
	for name, test := range map[string]struct{ redis, want string }{
		"alone":    {"", "Dirty database version 1"},
		"with One": {addr, "done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "one.db")
			in, first := (&migrator{file, test.redis, true}).start(t)
			mustSay(t, first, "migrates")
			mustSay(t, first, "inside")
			var others []*bufio.Reader
			for range 4 {
				_, out := (&migrator{file, test.redis, false}).start(t)
				others = append(others, out)
			}
			mustSay(t, others[0], "migrates")
			goOn := func() {
				if err := in.Close(); err != nil {
					t.Fatal(err)
				}
				mustSay(t, first, "done")
			}
			if test.redis != "" { // the others wait for it
				goOn()
			}
			mustSay(t, others[0], test.want)
			for _, out := range others[1:] {
				mustSay(t, out, "migrates")
				mustSay(t, out, test.want)
			}
			if test.redis == "" { // after they have failed
				goOn()
			}
		})
	}
}
