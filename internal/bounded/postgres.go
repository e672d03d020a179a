package bounded

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
)

const (
	// mostStart is how many bytes a PostgreSQL may send before it is ready for the first
	// statement. Usually these are a few hundred.
	mostStart = 1 << 20
	// mostRows is how many bytes it may send for one statement, in one message or in several.
	// The longest answer that Holdfast reads is a page of locks.
	mostRows = 16 << 20
	// mostStatus is how many bytes of parameters a PostgreSQL may report on a connection. The
	// client keeps each name that it has not seen before.
	mostStatus = 1 << 20
	// mostNotices is how many bytes of notifications may come during a statement. The client
	// keeps these. At any other time, it handles each at once.
	mostNotices = 4 << 20
	// mostNotice is longer than a notification of any PostgreSQL.
	mostNotice = 64 << 10
)

// postgres reads the messages of a PostgreSQL.
type postgres struct {
	io.Reader
	io.Writer

	header [5]byte // the kind of the message and its length
	size   int     // how many bytes of the header are known
	left   int     // how many bytes of the message are missing

	ready   bool // the server was ready for the first statement
	answer  int  // how many bytes it has sent for the present statement, or since it was connected
	status  int
	notices int  // how many bytes of notifications it has sent during the present statement
	busy    bool // the client waits for the answer to a statement

	refusal error
}

// Postgres returns what package pgproto3 reads from and writes to in place of r and w. Its method
// Read returns a *Refusal at a message that is too long or has a negative length, at text that is
// no message, and at messages that together are too long. The client must close the connection
// then. A refusal names the other side of w, if w is a net.Conn.
func Postgres(r io.Reader, w io.Writer) io.ReadWriter {
	return &postgres{Reader: r, Writer: w}
}

// Write implements io.Writer.
func (p *postgres) Write(b []byte) (int, error) {
	p.busy, p.notices = true, 0
	return p.Writer.Write(b)
}

// Read implements io.Reader.
func (p *postgres) Read(b []byte) (int, error) {
	if p.refusal != nil {
		return 0, p.refusal
	}
	n, err := p.Reader.Read(b)
	for at := 0; at < n; {
		used, reason := p.follow(b[at:n])
		if at += used; reason != "" {
			p.refusal = &Refusal{"the server", reason}
			if conn, ok := p.Writer.(net.Conn); ok {
				p.refusal = Refuse(conn, reason)
			}
			return at - 1, p.refusal
		}
	}
	return n, err
}

// follow follows a part of one message. It returns how many bytes that are, and why the last of
// them must be refused, or "".
func (p *postgres) follow(b []byte) (n int, reason string) {
	if p.left > 0 {
		n = min(p.left, len(b))
		p.left -= n
		return n, ""
	}
	n = copy(p.header[p.size:], b)
	if p.size += n; p.size < len(p.header) {
		return n, ""
	}
	p.size = 0
	length := int(int32(binary.BigEndian.Uint32(p.header[1:])))
	switch {
	case !p.ready && !strings.ContainsRune("REKSNvZ", rune(p.header[0])):
		return n, fmt.Sprintf("the server is not a PostgreSQL: it sent %q", p.header[:])
	case length < 4:
		return n, fmt.Sprintf("it announced a message of %d bytes", length)
	}
	p.left = length - 4
	return n, p.count(p.header[0], length+1)
}

// count counts a message of this kind and length. It returns why it must be refused, or "".
func (p *postgres) count(kind byte, length int) string {
	sum, most, what := &p.answer, mostRows, "an answer to a statement"
	switch {
	case !p.ready:
		most, what = mostStart, "a greeting"
	case kind == 'A':
		if length > mostNotice {
			return fmt.Sprintf("it announced a notification of %d bytes; the limit is %d bytes", length, mostNotice)
		}
		if !p.busy {
			return ""
		}
		sum, most, what = &p.notices, mostNotices, "notifications during a statement"
	case kind == 'S':
		sum, most, what = &p.status, mostStatus, "parameters"
	}
	if *sum += length; *sum > most {
		return fmt.Sprintf("it announced %s of %d bytes or more; the limit is %d bytes", what, *sum, most)
	}
	if kind == 'Z' {
		p.ready, p.busy, p.answer = true, false, 0
	}
	return ""
}
