package bounded

import (
	"io"
	"net"
	"testing"
)

// endlessPeer sends the same text again and again.
type endlessPeer struct {
	net.Conn
	text string
	at   int
}

func (p *endlessPeer) Read(b []byte) (int, error) {
	n := copy(b, p.text[p.at:])
	p.at = (p.at + n) % len(p.text)
	return n, nil
}

func (p *endlessPeer) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkRedis measures what a call and its reply cost, with and without the connection in
// between. Each reads as much as rueidis does.
func BenchmarkRedis(b *testing.B) {
	call := command("EVALSHA", "0123456789012345678901234567890123456789", "2", "{lock}", "{lock}:channel", "f3b0a1c4-0000-4000-8000-000000000000:1", "30000", "5", "0")
	const reply = "*4\r\n:1\r\n:29999\r\n$40\r\n0123456789012345678901234567890123456789\r\n$-1\r\n"
	for _, bounded := range []bool{false, true} {
		name := "plain"
		if bounded {
			name = "bounded"
		}
		b.Run(name, func(b *testing.B) {
			var conn net.Conn = &endlessPeer{text: reply}
			if bounded {
				conn = Redis(conn, new(Memory))
			}
			buffer, sent := make([]byte, len(reply)), []byte(call)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Write(sent); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, buffer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
