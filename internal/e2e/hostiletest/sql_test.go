package hostiletest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// pg returns a message of PostgreSQL.
func pg(kind string, body string) string {
	return kind + string(binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))) + body
}

// A PostgreSQL that is ready for statements.
var pgReady = pg("R", "\x00\x00\x00\x00") + pg("S", "server_version\x0016\x00") + pg("K", "\x00\x00\x00\x01\x00\x00\x00\x02") + pg("Z", "I")

// speaksPostgres answers as a PostgreSQL does up to the first statement.
func speaksPostgres(ssl string, first string, then play) play {
	return func(conn net.Conn) {
		for {
			b := make([]byte, 8)
			if _, err := io.ReadFull(conn, b); err != nil {
				return
			}
			if binary.BigEndian.Uint32(b[4:]) == 80877103 {
				if _, err := io.WriteString(conn, ssl); err != nil || ssl != "N" {
					return
				}
				continue
			}
			if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(b))-8); err != nil {
				return
			}
			break
		}
		if _, err := io.WriteString(conn, first); err != nil {
			return
		}
		then(conn)
	}
}

// after waits for a request, and plays then.
func after(then play) play {
	return func(conn net.Conn) {
		if _, err := conn.Read(make([]byte, 1<<16)); err == nil {
			then(conn)
		}
	}
}

// parameters sends parameters with new names without end.
func parameters(conn net.Conn) {
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	for i := 0; ; i++ {
		var b strings.Builder
		for j := range 100 {
			b.WriteString(pg("S", fmt.Sprintf("name%d-%d\x00%s\x00", i, j, strings.Repeat("x", 100))))
		}
		if _, err := io.WriteString(conn, b.String()); err != nil {
			return
		}
	}
}

func TestPostgres(t *testing.T) {
	row := pg("D", "\x00\x02\x00\x00\x00\x03160\x00\x00\x00\x01f")
	column := func(kind string) string {
		return "a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + kind + "\xff\xff\xff\xff\xff\xff\x00\x00"
	}
	columns := pg("T", "\x00\x02"+column("\x19")+column("\x10")) // a text and a bool
	for name, c := range map[string]hostile{
		"endless parameters":               {speaksPostgres("N", "", parameters), "a greeting of"},
		"endless parameters after a login": {speaksPostgres("N", pg("R", "\x00\x00\x00\x00"), parameters), "a greeting of"},
		"endless notices":                  {speaksPostgres("N", "", repeats("", pg("N", "SNOTICE\x00C00000\x00Mx\x00\x00"))), "a greeting of"},
		"message of 2 GB":                  {speaksPostgres("N", "", repeats("R\x7f\xff\xff\xff", "xxxx")), "a greeting of 2147483648"},
		"negative message":                 {speaksPostgres("N", "", says("R\xff\xff\xff\xff")), "a message of -1 bytes"},
		"text":                             {says("this is no PostgreSQL\r\n"), "the server refused TLS; refused|is not a PostgreSQL: it sent"},
		"text after TLS":                   {speaksPostgres("N", "this is no PostgreSQL\r\n", says("")), "is not a PostgreSQL: it sent"},
		"endless text":                     {repeats("", "AAAAAAAA"), "is not a PostgreSQL"},
		"endless text after TLS":           {speaksPostgres("N", "", repeats("", "AAAAAAAA")), "is not a PostgreSQL"},
		"silence":                          {says(""), "does not answer"},
		"end":                              {func(net.Conn) {}, "."},
		"endless parameters later":         {speaksPostgres("N", pgReady, parameters), "parameters of"},
		"endless notifications later":      {speaksPostgres("N", pgReady, after(repeats("", pg("A", "\x00\x00\x00\x01a\x00b\x00")))), "notifications during a statement"},
		"notification of 2 GB":             {speaksPostgres("N", pgReady, after(repeats("A\x7f\xff\xff\xff", "xxxx"))), "a notification of 2147483648"},
		"row of 2 GB":                      {speaksPostgres("N", pgReady, after(repeats(columns+"D\x7f\xff\xff\xff", "xxxx"))), "an answer to a statement of 2147483"},
		"endless rows":                     {speaksPostgres("N", pgReady, after(repeats(pg("1", "")+pg("t", "\x00\x00")+columns+pg("2", ""), row))), "an answer to a statement of"},
		"error of 2 GB":                    {speaksPostgres("N", pgReady, after(repeats("E\x7f\xff\xff\xff", "xxxx"))), "an answer to a statement of"},
		"columns without end":              {speaksPostgres("N", pgReady, after(says(pg("T", "\xff\xff")))), "RowDescription|invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil, c.answer)
			s.list(t, "postgres://u:p@"+s.addr+"/d", c.text)
		})
	}
}

// mysqlPacket returns a packet of MySQL.
func mysqlPacket(number byte, body string) string {
	return string([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), number}) + body
}

var (
	mysqlGreeting = mysqlPacket(0, "\x0a8.0.36\x00\x01\x00\x00\x00abcdefgh\x00\xff\xf7\x21\x02\x00\xff\xc7\x15"+strings.Repeat("\x00", 10)+"abcdefghijkl\x00mysql_native_password\x00")
	mysqlOK       = "\x00\x00\x00\x02\x00\x00\x00"
)

// speaksMySQL greets as a MySQL does, accepts the login, and answers the first statement.
func speaksMySQL(then play) play {
	return func(conn net.Conn) {
		if _, err := io.WriteString(conn, mysqlGreeting); err != nil {
			return
		}
		if _, err := conn.Read(make([]byte, 1<<16)); err != nil {
			return
		}
		if _, err := io.WriteString(conn, mysqlPacket(2, mysqlOK)); err != nil {
			return
		}
		after(then)(conn)
	}
}

// login greets as a MySQL does, and answers the login with a text.
func login(text string) play {
	return func(conn net.Conn) {
		if _, err := io.WriteString(conn, mysqlGreeting); err == nil {
			after(says(text))(conn)
		}
	}
}

func TestMySQL(t *testing.T) {
	huge := "\xff\xff\xff\x01" + strings.Repeat("x", 1<<24-1)
	for name, c := range map[string]hostile{
		"text":               {says("this is no MySQL\r\n"), "is not a MySQL or MariaDB: it sent"},
		"endless text":       {repeats("", "AAAAAAAA"), "is not a MySQL or MariaDB|a greeting of"},
		"endless greeting":   {repeats("\xff\xff\xff\x00", "\x0aAAAA"), "is not a MySQL or MariaDB|a greeting of"},
		"short greeting":     {says(mysqlPacket(0, "\x0aabc")), "too short"},
		"greeting of 1 byte": {says(mysqlPacket(0, "\x0a")), "too short"},
		"old greeting":       {says(mysqlPacket(0, "\x0a8\x00abcd12345678\x00\x00\x02")), "."},
		"silence":            {says(""), "does not answer|no answer|deadline"},
		"end":                {func(net.Conn) {}, "."},
		"endless packet": {speaksMySQL(func(conn net.Conn) {
			for {
				if _, err := io.WriteString(conn, huge); err != nil {
					return
				}
			}
		}), "an answer of"},
		"endless columns":  {speaksMySQL(repeats("", mysqlPacket(1, "\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"))), "columns; the limit"},
		"columns":          {speaksMySQL(says(mysqlPacket(1, "\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"))), "columns; the limit"},
		"columns of -1":    {speaksMySQL(says(mysqlPacket(1, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff"))), "18446744073709551615 columns"},
		"columns of 1 TB":  {speaksMySQL(says(mysqlPacket(1, "\xfe\x00\x00\x00\x00\x00\x01\x00\x00"))), "1099511627776 columns"},
		"columns of 2 GB":  {speaksMySQL(says(mysqlPacket(1, "\xfe\x00\x00\x00\x80\x00\x00\x00\x00"))), "2147483648 columns"},
		"columns of 16 MB": {speaksMySQL(says(mysqlPacket(1, "\xfd\xff\xff\xff"))), "16777215 columns"},
		"local file":       {speaksMySQL(says(mysqlPacket(1, "\xfb/etc/hostname"))), "asked for a file of this machine"},
		"short column":     {speaksMySQL(says(mysqlPacket(1, "\x01") + mysqlPacket(2, "\x03de"))), "."},
		"short length":     {speaksMySQL(says(mysqlPacket(1, "\xfe"))), "."},
		"cleartext":        {login(mysqlPacket(2, "\xfemysql_clear_password\x00")), "in clear text, and does not get it"},
		"unknown plugin":   {login(mysqlPacket(2, "\xfewhatever\x00")), "plugin"},
		"sha256 short":     {login(mysqlPacket(2, "\xfecaching_sha2_password\x00ab")), "."},
		"empty ok":         {login(mysqlPacket(2, "\x00")), "too short"},
		"error of 1 byte":  {login(mysqlPacket(2, "\xff")), "too short"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil, c.answer)
			s.list(t, "mysql://u:p@"+s.addr+"/d", c.text)
		})
	}
}
