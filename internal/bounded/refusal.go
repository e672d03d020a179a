// Package bounded refuses answers of servers that a client library could not bear: answers that
// would take more memory than any answer needs, and answers that end the process with a panic.
// It stands between a connection and the client library, inside TLS, and passes on what it has
// checked.
package bounded

import (
	"fmt"
	"net"
)

// Refusal is the error of a connection whose server sent what a client must not read. The
// connection is closed. A call that waited for an answer has an unknown outcome.
type Refusal struct {
	Addr   string // the server
	Reason string // what the server sent, and the limit
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("refused the answer of %s, and closed the connection: %s", r.Addr, r.Reason)
}

// Refuse returns the Refusal of a connection.
func Refuse(conn net.Conn, reason string) *Refusal { return &Refusal{addressOf(conn), reason} }

// addressOf returns the address of the other side of a connection.
func addressOf(conn net.Conn) string {
	if addr := conn.RemoteAddr(); addr != nil && addr.String() != "" {
		return addr.String()
	}
	return "the server"
}
