//go:build unix

package sqltest

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/await"
)

// Shared is the server of all tests of a package that do not harm it. The first of them
// starts it.
type Shared struct {
	// Run is RunPostgreSQL, RunMariaDB or RunMySQL, and Settings are what it takes.
	Run      func(settings ...string) (*Server, error)
	Settings []string

	start  sync.Once
	server *Server
	admin  *sql.DB
	err    error
}

// Tests returns the tests of a package, for goleak.VerifyTestMain: the server ends after them.
func (s *Shared) Tests(m *testing.M) SharedTests { return SharedTests{s, m} }

// SharedTests are the tests of a package that share a server.
type SharedTests struct {
	shared *Shared
	tests  *testing.M
}

// Run runs them, and returns the status of the program.
func (s SharedTests) Run() int {
	status := s.tests.Run()
	if server := s.shared.server; server != nil {
		_ = s.shared.admin.Close()
		server.Close()
		if status != 0 {
			fmt.Fprintln(os.Stderr, server.Log())
		}
	}
	return status
}

// DatabaseName is a name for a database of t alone.
func DatabaseName(t testing.TB) string {
	return strings.ToLower(strings.NewReplacer("/", "_", " ", "_", "#", "_", ",", "").Replace(t.Name()))
}

// Use returns the server, and a pool of connections to its first database.
func (s *Shared) Use(t testing.TB) (*Server, *sql.DB) {
	t.Helper()
	await.NotShort(t, "needs a database")
	s.start.Do(func() {
		if s.server, s.err = s.Run(s.Settings...); s.err == nil {
			s.admin, s.err = sql.Open(s.server.Driver, s.server.Name)
		}
	})
	if errors.Is(s.err, ErrMissing) {
		missing(t, s.err)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server, s.admin
}
