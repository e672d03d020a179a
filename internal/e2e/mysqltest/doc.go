// Package mysqltest has no code of its own, only tests: locks in MariaDB, over a real
// server.
package mysqltest
