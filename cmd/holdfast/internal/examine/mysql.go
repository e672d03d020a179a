package examine

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// The queries for variables and for the state. A server leaves out those that it does not
// know, and those that the user may not read.
const (
	askVariables = `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'read_only', 'max_connections',
 'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'wsrep_on')`
	askFigures = `SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected', 'wsrep_cluster_size', 'wsrep_cluster_status',
 'Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status')`
)

// MySQL returns the Ask for the MySQL or MariaDB at addr.
func MySQL(db *sql.DB, addr string) Ask {
	return func(ctx context.Context, _ *doctor.Options) (Facts, error) {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		said := make(map[string]string)
		for _, query := range []string{askVariables, askFigures} {
			if err := readPairs(ctx, db, query, said); err != nil {
				return Facts{}, fmt.Errorf("ask the server for its settings: %w", err)
			}
		}
		facts := Facts{Deployment: "standalone", Findings: mysqlFindings(said)}
		facts.Findings = append(facts.Findings, clock(ctx, func(ctx context.Context) (time.Time, error) {
			var micros int64
			err := db.QueryRowContext(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))").Scan(&micros)
			return time.UnixMicro(micros), err
		}))
		switch {
		case said["wsrep_on"] == "ON":
			facts.Deployment = "galera"
		case said["log_bin"] == "ON":
			facts.Deployment = "standalone or replicated"
		}
		version, _, _ := strings.Cut(said["version"], "-")
		product := "MySQL "
		if strings.Contains(said["version"], "MariaDB") {
			product = "MariaDB "
		}
		facts.Servers = []doctor.Server{{Address: addr, Version: product + version}}
		return facts, nil
	}
}

// readPairs adds the names and values that query returns to said.
func readPairs(ctx context.Context, db *sql.DB, query string, said map[string]string) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		said[name] = value
	}
	return rows.Err()
}

// mysqlFindings judges the variables and the state of the server.
func mysqlFindings(said map[string]string) []doctor.Finding {
	readOnly := said["read_only"] == "ON"
	now, _ := strconv.Atoi(said["Threads_connected"])
	most, _ := strconv.Atoi(said["max_connections"])
	found := []doctor.Finding{
		because(saw("writes", worse(readOnly, doctor.Danger), "read_only is %s", said["read_only"]),
			"a replica grants no lock", "name the server that takes writes"),
		mysqlDurability(said),
		connections(now, most, "raise max_connections, or use fewer connections a program"),
	}
	if said["wsrep_on"] == "ON" {
		return append(found, galera(said))
	}
	return append(found, mysqlReplication(said))
}

// mysqlDurability judges whether a crash of the server can lose locks. If sync_binlog is not
// 1, a commit may be missing in the binary log, and the server then undoes it when it starts
// again.
func mysqlDurability(said map[string]string) doctor.Finding {
	flush, binlog := said["innodb_flush_log_at_trx_commit"], said["sync_binlog"]
	f := saw("durability", doctor.OK, "innodb_flush_log_at_trx_commit is %s, sync_binlog is %s", flush, binlog)
	switch {
	case flush == "":
		return saw("durability", doctor.Unknown, "the server does not tell innodb_flush_log_at_trx_commit")
	case flush != "1" || said["log_bin"] == "ON" && binlog != "1":
		f.Severity = doctor.Warning
	}
	return because(f, "a server that crashes forgets the newest locks, which are granted again",
		"innodb_flush_log_at_trx_commit = 1, and sync_binlog = 1 where there is a binary log")
}

// mysqlReplication judges whether a replica that takes over knows every lock. It does not
// count the replicas, because users may lack the permission for that.
func mysqlReplication(said map[string]string) doctor.Finding {
	const id = "replication"
	waits := said["Rpl_semi_sync_master_status"] == "ON" || said["Rpl_semi_sync_source_status"] == "ON"
	switch {
	case said["log_bin"] != "ON":
		return saw(id, doctor.OK, "it has no binary log, and so no replicas")
	case waits:
		return saw(id, doctor.OK, "a commit waits for a replica (semi-synchronous)")
	}
	return because(saw(id, doctor.Note, "it has a binary log, and commits do not wait for replicas"),
		"a replica that takes over may lack the newest locks: they are granted twice",
		"semi-synchronous replication, if replicas take over")
}

// galera judges a server of a Galera cluster, in which every server takes writes.
func galera(said map[string]string) doctor.Finding {
	f := saw("galera", doctor.Warning, "a Galera cluster of %s, status %s", said["wsrep_cluster_size"], said["wsrep_cluster_status"])
	if said["wsrep_cluster_status"] != "Primary" {
		f.Severity = doctor.Danger
		return because(f, "this part of the cluster has no majority, and grants no lock", "connect to the part that has one")
	}
	return because(f, "locks in a Galera cluster were not tested: two servers that take writes may answer from different moments",
		"lead all programs that lock to one and the same server")
}
