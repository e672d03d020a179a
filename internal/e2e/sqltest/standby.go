//go:build unix

package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// Standby starts a server for t that follows s, a PostgreSQL, over the address through:
// that of s, or of a proxy before it. It answers queries, and calls itself
// "standby". It returns when s says that it has sent all.
func (s *Server) Standby(t testing.TB, through string) *Server {
	t.Helper()
	host, port, err := net.SplitHostPort(through)
	if err != nil {
		t.Fatal(err)
	}
	standby := newServer(t, "postgres")
	from := fmt.Sprintf("host=%s port=%s user=test application_name=standby", host, port)
	if err := standby.run(filepath.Join(filepath.Dir(s.program), "pg_basebackup"), "-D", standby.data(), "-R", "-X", "stream", "--no-sync", "-c", "fast", "-d", from); err != nil {
		t.Fatal(err)
	}
	// With the usual interval a promotion may come five seconds late, after the lease of a test.
	if err := standby.servePostgreSQL([]string{"wal_retrieve_retry_interval=100ms"}); err != nil {
		t.Fatal(err)
	}
	db := connect(t, s.Driver, s.Name)
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	const caughtUp = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND replay_lsn = pg_current_wal_lsn()"
	for n := 0; n == 0; time.Sleep(20 * time.Millisecond) { // there is no event for that
		if err := db.QueryRowContext(ctx, caughtUp).Scan(&n); err != nil {
			t.Fatalf("the standby does not follow: %v", err)
		}
	}
	return standby
}

// Promote makes a primary of a standby, and returns when it takes writes.
func (s *Server) Promote() error {
	db, err := sql.Open(s.Driver, s.Name)
	if err != nil {
		return err
	}
	defer db.Close()
	var done bool
	if err := db.QueryRow("SELECT pg_promote(true, 30)").Scan(&done); err != nil || !done {
		return fmt.Errorf("promotion of %s: %v, %w", s.Addr(), done, err)
	}
	return nil
}
