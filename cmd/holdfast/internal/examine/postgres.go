package examine

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/pghold"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// postgresSettings has what a PostgreSQL shows of itself to every user.
type postgresSettings struct {
	Version     string
	Standby     bool
	ReadOnly    bool
	Commit      string // synchronous_commit
	Synchronous string // synchronous_standby_names
	Fsync       string
	Autovacuum  string
	Most, Now   int // connections
	Replicas    int // standbys that stream from it
	Session     uint32

	Pooled bool `db:"-"` // the connection leads to a pooler
	Behind bool `db:"-"` // Listen names the same host and port as the connection
}

const askPostgres = `SELECT current_setting('server_version') AS version,
 pg_is_in_recovery() AS standby,
 current_setting('transaction_read_only')::bool AS read_only,
 current_setting('synchronous_commit') AS commit,
 current_setting('synchronous_standby_names') AS synchronous,
 current_setting('fsync') AS fsync,
 current_setting('autovacuum') AS autovacuum,
 current_setting('max_connections')::int AS most,
 pg_backend_pid() AS session,
 (SELECT sum(numbackends) FROM pg_stat_database)::int AS now,
 (SELECT count(*) FROM pg_stat_replication AS r WHERE coalesce(application_name, '') <> 'pg_basebackup' AND NOT EXISTS
  (SELECT 1 FROM pg_replication_slots AS s WHERE s.active_pid = r.pid AND s.slot_type = 'logical'))::int AS replicas`

// Postgres returns the Ask for the server of pool. layout has the settings of the locks.
func Postgres(pool *pgxpool.Pool, layout *pghold.Options) Ask {
	return func(ctx context.Context, _ *doctor.Options) (Facts, error) {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return Facts{}, fmt.Errorf("ask PostgreSQL for its settings: %w", err)
		}
		defer conn.Release()
		// A pooler in transaction mode knows no prepared statements.
		rows, _ := conn.Query(ctx, askPostgres, pgx.QueryExecModeExec) // CollectExactlyOneRow returns the error
		s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[postgresSettings])
		if err != nil {
			return Facts{}, fmt.Errorf("ask PostgreSQL for its settings: %w", err)
		}
		// A pooler uses a session that differs from the one that it named when the client connected.
		s.Pooled = s.Session != conn.Conn().PgConn().PID()
		config := pool.Config().ConnConfig
		s.Behind = layout.Listen != nil && layout.Listen.Host == config.Host && layout.Listen.Port == config.Port
		server := doctor.Server{Address: net.JoinHostPort(config.Host, fmt.Sprint(config.Port)), Version: "PostgreSQL " + s.Version, Role: "primary"}
		facts := Facts{Deployment: "standalone", Findings: s.findings(layout)}
		facts.Findings = append(facts.Findings, clock(ctx, func(ctx context.Context) (at time.Time, err error) {
			err = conn.QueryRow(ctx, "SELECT clock_timestamp()", pgx.QueryExecModeExec).Scan(&at)
			return at, err
		}))
		if s.Replicas > 0 {
			facts.Deployment = "replicated"
		}
		if s.Standby {
			facts.Deployment, server.Role = "replicated", "standby"
		}
		facts.Servers = []doctor.Server{server}
		return facts, nil
	}
}

func (s *postgresSettings) findings(layout *pghold.Options) []doctor.Finding {
	found := []doctor.Finding{
		s.writes(), s.replication(), s.durability(),
		connections(s.Now, s.Most, "raise max_connections, or put a pooler before the server"),
		because(saw("autovacuum", worse(s.Autovacuum != "on", doctor.Warning), "autovacuum is %s", s.Autovacuum),
			"every renewal leaves a dead row, and the table of locks grows", "ALTER SYSTEM SET autovacuum = on"),
	}
	if layout.Layout == pghold.ShedLock { // it has no notifications, and no setting changes that
		return found
	}
	return append(found, s.notifications(layout.Listen != nil))
}

// notifications judges whether waiters are notified of releases. If they are not, they must
// poll.
func (s *postgresSettings) notifications(wanted bool) doctor.Finding {
	const id = "notifications"
	f := saw(id, doctor.Note, "notifications are off in the URL (listen=off)")
	switch {
	case wanted && s.Pooled && s.Behind:
		f = saw(id, doctor.Note, "the connection leads to a pooler, and a pooler passes on no notifications")
	case wanted:
		return saw(id, doctor.OK, "notifications are received")
	}
	return because(f,
		"those who wait ask again and again, and learn of a release later", "listen=HOST:PORT of the server itself, where the URL leads to a pooler")
}

func (s *postgresSettings) writes() doctor.Finding {
	switch {
	case s.Standby:
		return because(saw("writes", doctor.Danger, "the server is a standby"), "a standby grants no lock", "name the primary, or several hosts and target_session_attrs=read-write")
	case s.ReadOnly:
		return because(saw("writes", doctor.Danger, "transactions are read-only"), "no lock can be granted", "default_transaction_read_only = off for this user and database")
	}
	return saw("writes", doctor.OK, "the server takes writes")
}

// replication judges whether a standby that takes over knows every lock.
func (s *postgresSettings) replication() doctor.Finding {
	const id = "replication"
	waits := s.Synchronous != "" && (s.Commit == "on" || s.Commit == "remote_apply")
	switch {
	case s.Replicas == 0 && s.Synchronous == "":
		return saw(id, doctor.OK, "no standby follows it")
	case waits:
		return saw(id, doctor.OK, "a commit waits for %s", s.Synchronous)
	}
	return because(saw(id, doctor.Warning, "standbys: %d; synchronous_standby_names is %q, synchronous_commit is %s", s.Replicas, s.Synchronous, s.Commit),
		"a standby that takes over may lack the newest locks: they are granted twice",
		"synchronous_standby_names = 'ANY 1 (*)' and synchronous_commit = on for the user of the locks")
}

// durability judges whether a crash of the server can lose locks.
func (s *postgresSettings) durability() doctor.Finding {
	severity := doctor.OK
	switch {
	case s.Fsync != "on":
		severity = doctor.Danger
	case s.Commit == "off":
		severity = doctor.Warning
	}
	return because(saw("durability", severity, "fsync is %s, synchronous_commit is %s", s.Fsync, s.Commit),
		"a server that crashes forgets the newest locks, which are granted again", "fsync = on, and ALTER ROLE <user> SET synchronous_commit = on")
}
