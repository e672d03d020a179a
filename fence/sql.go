package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// The table of SQL, with one row for each name. Names are compared byte by byte.
const (
	// PostgreSQLTable is the statement that creates the table in PostgreSQL, in the database of
	// the protected data. Several programs may run it at the same time. It is longer than
	// CREATE TABLE IF NOT EXISTS, because with that alone one of these programs could get an
	// error. Names must be valid text in PostgreSQL: UTF-8 without a zero byte.
	PostgreSQLTable = `DO $fence$
BEGIN
	CREATE TABLE IF NOT EXISTS fence (
		name  text COLLATE "C" PRIMARY KEY,
		token bigint NOT NULL
	);
EXCEPTION WHEN unique_violation OR duplicate_table OR duplicate_object THEN
	NULL; -- another program has just created it
END $fence$`

	// MySQLTable is the statement that creates the table in MySQL and MariaDB. Names have
	// up to 512 bytes.
	MySQLTable = `CREATE TABLE IF NOT EXISTS fence (
	name  varbinary(512) NOT NULL PRIMARY KEY,
	token bigint NOT NULL
) ENGINE=InnoDB`
)

// SQL refuses stale tokens in a database. It does so in the transaction of the protected write.
// Its values are PostgreSQL and MySQL.
type SQL int

const (
	// PostgreSQL is the SQL for PostgreSQL 9.5 or newer, and compatible databases.
	PostgreSQL SQL = iota + 1
	// MySQL is the SQL for MySQL and MariaDB, with a table in InnoDB.
	MySQL
)

// Check records the token for the name in the transaction tx, and returns ErrStale if a larger
// token was recorded before. Call it before the protected write, in the same transaction, and
// roll back on any error:
//
//	tx, err := db.BeginTx(ctx, nil)
//	if err != nil {
//		return err
//	}
//	defer tx.Rollback()
//	if err := fence.PostgreSQL.Check(ctx, tx, lock.Name(), lock.Token()); err != nil {
//		return err
//	}
//	// … the write …
//	return tx.Commit()
//
// The row of the name stays locked until the transaction ends, so no other holder can write in
// between. Transactions of other names do not wait. A refused token, or one whose transaction
// is rolled back, is not stored.
//
// Under an isolation level above the default of the database, Check may return the
// database's error for a serialization failure. That error says nothing about the token:
// begin the transaction again. The transaction must not be read-only.
func (d SQL) Check(ctx context.Context, tx *sql.Tx, name string, token uint64) error {
	switch d {
	case PostgreSQL:
		return CheckPostgreSQL(ctx, func(ctx context.Context, statement string, args ...any) (int64, error) {
			result, err := tx.ExecContext(ctx, statement, args...)
			if err != nil {
				return 0, err
			}
			return result.RowsAffected()
		}, name, token)
	case MySQL:
		return checkMySQL(ctx, tx, name, token)
	default:
		return fmt.Errorf("fence: unknown SQL dialect %d: %w", int(d), errors.ErrUnsupported)
	}
}

// CheckPostgreSQL is PostgreSQL.Check for a client other than database/sql. The function `exec`
// executes a statement in the transaction of the protected write, and returns how many rows it
// affected. For pgx there is pghold.CheckFence.
func CheckPostgreSQL(ctx context.Context, exec func(ctx context.Context, statement string, args ...any) (int64, error),
	name string, token uint64,
) error {
	if err := valid(name, token); err != nil {
		return err
	}
	// ON CONFLICT locks the row. So the comparison is with the token in the latest version of
	// the row.
	affected, err := exec(ctx, `INSERT INTO fence (name, token) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET token = EXCLUDED.token
WHERE fence.token <= EXCLUDED.token`, name, int64(token))
	if err != nil {
		return fmt.Errorf("fence: record token of %q: %w", name, err)
	}
	if affected == 0 {
		return stale(name, token, 0)
	}
	return nil
}

// checkMySQL locks the row, reads the token in it, and compares the tokens. The number of
// affected rows does not show whether the token was stale: by default MySQL counts the rows
// that changed, and the second write of a holder changes none. The insert comes first, because
// reading a row that does not exist locks a gap, on which two transactions can deadlock.
func checkMySQL(ctx context.Context, tx *sql.Tx, name string, token uint64) error {
	if err := valid(name, token); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO fence (name, token) VALUES (?, ?)
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`, []byte(name), int64(token)); err != nil {
		return fmt.Errorf("fence: record token of %q: %w", name, err)
	}
	var seen int64
	if err := tx.QueryRowContext(ctx, `SELECT token FROM fence WHERE name = ? FOR UPDATE`, []byte(name)).Scan(&seen); err != nil {
		return fmt.Errorf("fence: read token of %q: %w", name, err)
	}
	if seen > int64(token) {
		return stale(name, token, uint64(seen))
	}
	return nil
}
