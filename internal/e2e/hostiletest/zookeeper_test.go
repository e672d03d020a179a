package hostiletest

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
)

// packet returns a packet of ZooKeeper with these numbers and texts.
func packet(parts ...any) string {
	body := []byte{0, 0, 0, 0}
	for _, p := range parts {
		if text, ok := p.(string); ok {
			body = append(body, text...)
			continue
		}
		body, _ = binary.Append(body, binary.BigEndian, p)
	}
	binary.BigEndian.PutUint32(body, uint32(len(body)-4))
	return string(body)
}

// greeting is the first packet of a ZooKeeper.
func greeting(timeout int32, password int32) string {
	return packet(int32(0), timeout, int64(1), password, strings.Repeat("p", 16), int8(0))
}

// speaksZooKeeper answers the command srvr and the greeting as a ZooKeeper does. The function
// reply returns the answer to another request, without its header. If that function is nil, the
// answer is `then`.
func speaksZooKeeper(first string, then play, reply func(op uint32) string) play {
	return func(conn net.Conn) {
		b := make([]byte, 4)
		if _, err := io.ReadFull(conn, b); err != nil {
			return
		}
		if string(b) == "srvr" {
			_, _ = io.WriteString(conn, "Zookeeper version: 3.9.4-x, built on 1\nMode: standalone\nOutstanding: 0\n")
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(b))); err != nil {
			return
		}
		if _, err := io.WriteString(conn, first); err != nil {
			return
		}
		if then != nil {
			then(conn)
			return
		}
		for {
			if _, err := io.ReadFull(conn, b); err != nil {
				return
			}
			request := make([]byte, binary.BigEndian.Uint32(b))
			if _, err := io.ReadFull(conn, request); err != nil {
				return
			}
			op := binary.BigEndian.Uint32(request[4:])
			answer := packet(string(request[:4]), int64(1), int32(0), reply(op))
			if op == 9 || op == 11 { // sync, ping
				answer = packet(string(request[:4]), int64(1), int32(0), int32(1), "/")
			}
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	}
}

func TestZooKeeper(t *testing.T) {
	good := greeting(30_000, 16)
	list := func(count int, name string) string {
		one := string(binary.BigEndian.AppendUint32(nil, uint32(len(name)))) + name
		return string(binary.BigEndian.AppendUint32(nil, uint32(count))) + strings.Repeat(one, count) + strings.Repeat("\x00", 68)
	}
	replies := func(data string) play { return speaksZooKeeper(good, nil, func(uint32) string { return data }) }
	for name, c := range map[string]hostile{
		"greeting of 2 GB":         {speaksZooKeeper("\x7f\xff\xff\xff", repeats("", "xxxx"), nil), "is not a ZooKeeper"},
		"negative greeting":        {speaksZooKeeper("\xff\xff\xff\xff", repeats("", "xxxx"), nil), "is not a ZooKeeper"},
		"short greeting":           {speaksZooKeeper("\x00\x00\x00\x04abcd", says(""), nil), "is not a ZooKeeper"},
		"text":                     {says("this is no ZooKeeper\r\n"), "is not a ZooKeeper: it sent \"this is no"},
		"endless text":             {repeats("", "AAAAAAAAAAAAAAAA"), "is not a ZooKeeper: it sent \"AAAA"},
		"text after srvr":          {speaksZooKeeper("this is no ZooKeeper", says(""), nil), "is not a ZooKeeper: it sent"},
		"password of 2 GB":         {speaksZooKeeper(greeting(30_000, 0x7fffffff), says(""), nil), "a password of 2147483647 bytes"},
		"session of 0":             {speaksZooKeeper(greeting(0, 16), says(""), nil), "a session of 0s"},
		"negative session":         {speaksZooKeeper(greeting(-1, 16), says(""), nil), "a session of -1ms"},
		"silence":                  {speaksZooKeeper(good, says(""), nil), "longer than --timeout"},
		"end":                      {speaksZooKeeper(good, func(net.Conn) {}, nil), "connection closed|not connected"},
		"negative packet":          {speaksZooKeeper(good, says("\xff\xff\xff\xff"), nil), "a packet of -1 bytes"},
		"packet of 2 GB":           {speaksZooKeeper(good, repeats("\x7f\xff\xff\xff", "xxxx"), nil), "a packet of 2147483647 bytes"},
		"packet of 4 bytes":        {speaksZooKeeper(good, says("\x00\x00\x00\x04abcd"), nil), "a packet of 4 bytes"},
		"packets without requests": {speaksZooKeeper(good, repeats("", packet(int32(5), int64(1), int32(0), "xxxxxxxx")), nil), "longer than --timeout"},
		"endless events":           {speaksZooKeeper(good, repeats("", packet(int32(-1), int64(1), int32(0), int32(2), int32(3), int32(2), "/a")), nil), "longer than --timeout"},
		"list of 2 billion":        {replies("\x7f\xff\xff\xff"), "a list of 2147483647 names"},
		"list of 4 billion":        {replies("\xff\xff\xff\xff"), "a list of 4294967295 names"},
		"list of 2 million":        {replies(list(2_000_000, "")), "a packet of|replies of"},
		"list of children":         {replies(list(50_000, strings.Repeat("x", 70))), "replies of"},
		"endless tree":             {replies(list(1000, strings.Repeat("x", 70))), "too many nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil, c.answer)
			s.list(t, "zk://"+s.addr, c.text)
		})
	}
}
