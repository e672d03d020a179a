// Package answers says what an answer of a database, an etcd or a ZooKeeper means for the call
// that got it. No other package decides that. The answers of Redis are in package wire of
// redishold. docs/answers.md has the same rules as a table, which a test compares.
package answers

import (
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// Meaning is what an answer means.
type Meaning string

// The meanings of answers.
const (
	// Unknown: the answer does not show whether the call was executed.
	Unknown Meaning = "unknown"
	// Conflict: the call was not executed, because another transaction was faster. The same
	// call may succeed at once.
	Conflict Meaning = "conflict"
	// Later: the call was not executed. The same call may succeed later, although no operator
	// acts.
	Later Meaning = "later"
	// Denied is the meaning of driver.ErrDenied.
	Denied Meaning = "denied"
	// Unable is the meaning of driver.ErrUnable.
	Unable Meaning = "unable"
	// Invalid is the meaning of driver.ErrInvalid.
	Invalid Meaning = "invalid"
	// Refused: the store lacks what the locks need, such as a database, a table or a feature.
	Refused Meaning = "refused"
	// Gone is the meaning of driver.ErrGone.
	Gone Meaning = "gone"
	// Mismatch is the meaning of driver.ErrMismatch.
	Mismatch Meaning = "mismatch"
)

// Refusal returns the error of package driver for a meaning that is a driver.ErrRefused. For
// any other meaning it returns nil.
func (m Meaning) Refusal() error {
	switch m {
	case Denied:
		return driver.ErrDenied
	case Unable:
		return driver.ErrUnable
	case Invalid:
		return driver.ErrInvalid
	case Refused:
		return driver.ErrRefused
	}
	return nil
}

// Postgres returns the meaning of an error of PostgreSQL or of a pooler, from its SQLSTATE and
// its message. For an error of severity ERROR, Later also means that the transaction was undone.
func Postgres(state, message string) Meaning {
	switch state {
	case "40001", "40P01": // serialization failure, deadlock
		return Conflict
	case "42501": // no permission
		return Denied
	case "53100": // the disk is full
		return Unable
	case "08P01": // PgBouncer has this state for most of its errors
		return pooler(message)
	}
	switch state[:min(2, len(state))] {
	case "28": // login
		return Denied
	case "0A", "22", "23", "26", "3D", "3F", "42": // unsupported, bad data, constraint, statement, database, schema, syntax
		return Refused
	}
	return Later
}

// pooler returns the meaning of an error of a pooler that has only a message. Most of these
// errors say that the server is away or that all connections are in use.
func pooler(message string) Meaning {
	has := func(pattern string) bool { return regexp.MustCompile(`(?i)` + pattern).MatchString(message) }
	switch {
	case has(`no such database`), has(`unsupported|not supported`):
		return Refused
	case has(`no such user|authentication failed|password|login rejected|not allowed|pg_hba|(SSL|TLS) required`):
		return Denied
	}
	return Later
}

// MySQL returns the meaning of the number of an error of MySQL or MariaDB.
func MySQL(number int) Meaning {
	switch number {
	case 1213, 1020: // deadlock; a row that was changed since it was read
		return Conflict
	case 1044, 1045, 1130, 1142, 1143, 1227, 1251, 1370, 1698, 2061: // database, login, host, table, column, command, way to log in, routine, way to log in
		return Denied
	case 1021, 1114: // the disk or the table is full
		return Unable
	case 1049, 1054, 1064, 1104, 1146, 1193, 1231, 1292, 1665, 3944: // database, column, syntax, limit, table, setting, value, time, binary log, way to log in
		return Refused
	case 1040, 1047, 1129, 1203, 1205, 1226, 1290, 1792, 1836, 1969, 3024: // too many, not ready, host blocked, row locked for long, read-only, time limit
		return Later
	}
	return Unknown
}

// Etcd returns the meaning of an error of etcd, from its text, such as "etcdserver: permission
// denied".
func Etcd(text string) Meaning {
	says := func(some ...string) bool {
		return slices.ContainsFunc(some, func(s string) bool { return strings.Contains(text, s) })
	}
	switch {
	case says("requested lease not found"):
		return Gone
	case says("authentication failed", "user name is empty", "user name not found", "permission denied"):
		return Denied
	case says("database space exceeded"):
		return Unable
	case says("request is too large"):
		return Invalid
	case says("corrupt", "not capable", "authentication is not enabled"):
		return Refused
	case says("too many requests", "invalid auth token"):
		return Later
	}
	return Unknown
}

// ZooKeeper returns the meaning of an error code of ZooKeeper.
func ZooKeeper(code int) Meaning {
	switch code {
	case -102, -114, -115, -124: // no permission, list of permissions, login, no login
		return Denied
	case -108: // a node of a lock is a part of the path
		return Mismatch
	case -112: // the session has expired
		return Gone
	case -118, -119, -127: // the session moved to another server, the server is read-only, too many requests
		return Later
	case -125: // quota
		return Unable
	}
	return Unknown
}
