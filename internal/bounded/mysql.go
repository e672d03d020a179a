package bounded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"
)

const (
	// mostGreeting is how many bytes a MySQL may send before the client sends anything. Usually
	// these are about 100.
	mostGreeting = 64 << 10
	// mostResult is how many bytes it may send for one request. The client joins packets of 16 MB
	// to one, without a limit. The longest answer that Holdfast reads is a page of locks.
	mostResult = 8 << 20
	// mostColumns is how many columns a result of MySQL may have.
	mostColumns = 4096
)

// mysql is a connection to a MySQL or MariaDB.
type mysql struct {
	net.Conn
	refused func(*Refusal)
	refusal *Refusal

	asked  bool // the client has sent something
	secure bool // what follows is TLS
	read   int  // how many bytes came since the client sent something

	commands bool     // the login is over: the client has sent a command
	login    []byte   // the packet that is being read before that
	first    bool     // the first packet of an answer to a query is being read
	begin    [13]byte // its beginning: its length, its number and its first bytes
	received int      // how many bytes of it have arrived
}

// MySQL returns a connection over conn for package mysql of go-sql-driver, which allocates memory
// for columns before they come. Its method Read returns a *Refusal, and closes conn, when the
// greeting or the answer to a request is too long. Without TLS, this is also done at a greeting
// of something else, at packets of the login that are too short for the client, at a result with
// more columns than a table can have, and at a request for a file. Read calls the function `refused` before it returns a Refusal, because the client hides
// the errors of Read.
func MySQL(conn net.Conn, refused func(*Refusal)) net.Conn {
	return &mysql{Conn: conn, refused: refused}
}

// SyscallConn implements syscall.Conn. The client uses it to find out whether the server has closed
// an idle connection.
func (m *mysql) SyscallConn() (syscall.RawConn, error) {
	conn, ok := m.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return conn.SyscallConn()
}

// Write implements net.Conn. The client writes each packet with one call.
func (m *mysql) Write(p []byte) (int, error) {
	const (
		sslRequest = 32      // the length of that packet
		useSSL     = 1 << 11 // the capability in it
		comQuery   = 0x03
	)
	if !m.secure && len(p) > 4 {
		m.secure = !m.asked && len(p) == 4+sslRequest && binary.LittleEndian.Uint32(p[4:])&useSSL != 0
		m.commands = m.commands || p[3] == 0
		m.first, m.received = p[3] == 0 && p[4] == comQuery, 0
	}
	m.asked, m.read = true, 0
	return m.Conn.Write(p)
}

// Read implements net.Conn.
func (m *mysql) Read(p []byte) (int, error) {
	if m.refusal != nil {
		return 0, m.refusal
	}
	n, err := m.Conn.Read(p)
	good, reason := m.check(p[:max(n, 0)])
	if reason == "" {
		return n, err
	}
	m.refusal = Refuse(m.Conn, reason)
	m.refused(m.refusal)
	_ = m.Close()
	return good, m.refusal
}

// check checks what was read. If it must be refused, check returns the reason, and how many bytes
// the client may have.
func (m *mysql) check(b []byte) (good int, reason string) {
	most, what := mostResult, "an answer"
	if !m.asked {
		most, what = mostGreeting, "a greeting"
	}
	if m.read += len(b); m.read > most {
		return 0, fmt.Sprintf("it sent %s of %d bytes or more; the limit is %d bytes", what, m.read, most)
	}
	for i, c := range b {
		switch {
		case m.secure, m.commands && !m.first:
			return len(b), ""
		case m.commands:
			m.begin[m.received] = c
			m.received++
			reason = m.checkResult()
		default:
			m.login = append(m.login, c)
			reason = m.checkLogin()
		}
		if reason != "" {
			return i, reason
		}
	}
	return len(b), ""
}

// checkLogin checks a packet of the login, as far as it has arrived.
func (m *mysql) checkLogin() string {
	const version, failed = 10, 0xff
	if len(m.login) < 5 {
		return ""
	}
	length := int(binary.LittleEndian.Uint32(m.login) & 0xffffff)
	kind := m.login[4]
	if !m.asked && (m.login[3] != 0 || kind != version && kind != failed) || length > mostGreeting {
		return fmt.Sprintf("the server is not a MySQL or MariaDB: it sent %q", m.login)
	}
	if len(m.login) < 4+length {
		return ""
	}
	data := m.login[4:]
	m.login = m.login[:0]
	short := false
	switch {
	case kind == failed:
		short = len(data) < 9
	case !m.asked:
		short = shortGreeting(data)
	case kind == 0: // the login succeeded
		short = len(data) < 7
	case bytes.HasPrefix(data, []byte("\xfemysql_native_password\x00")): // a challenge of 20 bytes follows
		short = len(data) < 43
	}
	return unless(!short, "it sent a packet that is too short")
}

// shortGreeting reports whether a greeting ends before the client has read it.
func shortGreeting(data []byte) bool {
	const (
		challenge = 4 + 8 + 1 // after the version: the number of the connection, and the first part of the challenge
		old       = 2         // capabilities, the end of an old greeting
		more      = 1 + 2 + 2 + 1 + 10
		rest      = 13 // the second part of the challenge
	)
	end := 2 + bytes.IndexByte(data[1:], 0) + challenge + old
	return len(data) < end || len(data) > end && len(data) < end+more+rest
}

// checkResult checks the first packet of an answer to a query, as far as it has arrived.
func (m *mysql) checkResult() string {
	const (
		ofTwo   = 0xfc // a number of two bytes follows
		ofThree = 0xfd
		ofEight = 0xfe
		file    = 0xfb // the server asks for a file
	)
	if m.received < 5 {
		return ""
	}
	length := int(binary.LittleEndian.Uint32(m.begin[:]) & 0xffffff)
	size, known := map[byte]int{ofTwo: 2, ofThree: 3, ofEight: 8}[m.begin[4]]
	if m.first = known && m.received < 5+size; m.first {
		return ""
	}
	if m.begin[4] == file {
		return "the server asked for a file of this machine, which it does not get"
	}
	if columns := binary.LittleEndian.Uint64(append(m.begin[5:5+size:5+size], make([]byte, 8)...)); columns > mostColumns {
		return fmt.Sprintf("it announced a result with %d columns; the limit is %d", columns, mostColumns)
	}
	if size > length-1 {
		return "it sent a result without a number of columns"
	}
	return ""
}
