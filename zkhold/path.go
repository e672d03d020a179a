package zkhold

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

// pathOf returns the path of a lock: different ones for different names.
func pathOf(root, name string) string {
	first, rest, nested := strings.Cut(name, "/")
	if first = escape(first); root == "" && first == "zookeeper" {
		first = "%7Aookeeper"
	}
	if !nested {
		return root + "/" + first
	}
	elements := strings.Split(rest, "/")
	for i, e := range elements {
		elements[i] = escape(e)
	}
	return root + "/" + first + "/" + strings.Join(elements, "/")
}

// nameOf returns the name of the lock with a path, and whether one has it.
func nameOf(root, path string) (name string, ok bool) {
	elements := strings.Split(strings.TrimPrefix(path, root+"/"), "/")
	for i, e := range elements {
		if e == "%" {
			elements[i] = ""
		} else if elements[i], ok = unescape(e); !ok {
			return "", false
		}
	}
	name = strings.Join(elements, "/")
	return name, pathOf(root, name) == path
}

// unescape undoes what escape does, but for a lone percent sign.
func unescape(element string) (part string, ok bool) {
	var b strings.Builder
	for {
		plain, rest, escaped := strings.Cut(element, "%")
		b.WriteString(plain)
		if !escaped {
			return b.String(), true
		}
		c, err := strconv.ParseUint(rest[:min(2, len(rest))], 16, 8)
		if err != nil || len(rest) < 2 {
			return "", false
		}
		b.WriteByte(byte(c))
		element = rest[2:]
	}
}

// escape makes an element of a path of part of a name, as the package comment says.
func escape(part string) string {
	if part == "" {
		return "%"
	}
	if part == "." || part == ".." {
		return strings.ReplaceAll(part, ".", "%2E")
	}
	_, _, claim := parse(part)
	if !claim && strings.IndexFunc(part, special) < 0 {
		return part
	}
	var b strings.Builder
	for i, r := range part {
		if last := i == len(part)-1; !special(r) && !(claim && last) {
			b.WriteRune(r)
			continue
		}
		_, n := utf8.DecodeRuneInString(part[i:]) // one byte where r stands for what is not UTF-8
		for _, c := range []byte(part[i : i+n]) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// special says that ZooKeeper, or one of its clients in Go and Java, does not take a
// character as it is. Characters beyond 16 bits are pairs of surrogates to the server.
// utf8.RuneError, which stands for bytes that are not UTF-8, is special, too.
func special(r rune) bool {
	return r == '%' || r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// marks are how the nodes of each kind end, before the sequence number: those of Curator,
// which are ours, and those of kazoo.
func marks() []mark {
	return []mark{
		{"lock-", ordered.Mutex},
		{"__WRIT__", ordered.Writer},
		{"__READ__", ordered.Reader},
		{"__lock__", ordered.Mutex},
		{"__rlock__", ordered.Reader},
		{"lease-", ordered.Permit},
	}
}

type mark struct {
	text string
	kind ordered.Kind
}

// parse takes the name of a node apart. ok says that it is that of a claim, of this
// package or another program. Those of ours say how many permits there are.
func parse(node string) (m ordered.Mark, seq int32, ok bool) {
	before := strings.TrimRight(node, "0123456789")
	m.Kind = kindOf(before)
	if m.Kind == "" && strings.HasSuffix(before, "-") { // beyond the end of the counter
		before = before[:len(before)-1]
		m.Kind = kindOf(before)
	}
	number := node[len(before):]
	n, err := strconv.ParseInt(number, 10, 32)
	if m.Kind == "" || err != nil || len(number) < 10 {
		return ordered.Mark{}, 0, false
	}
	if m.Kind == ordered.Permit {
		p, permits, found := strings.Cut(strings.TrimSuffix(before, "-lease-"), "-p")
		if found && p != "" {
			m.Permits, _ = strconv.Atoi(permits)
		}
	}
	return m, int32(n), true
}

// kindOf returns the kind of a node with such a name before its sequence number, "" if it
// is not that of a claim.
func kindOf(before string) ordered.Kind {
	for _, k := range marks() {
		if strings.HasSuffix(before, k.text) {
			return k.kind
		}
	}
	return ""
}

// digits is the number of a session in hexadecimal digits.
func digits(session int64) (s [16]byte) {
	hex.Encode(s[:], binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(session)))
	return s
}

// ownLength is how long the part of a node's name is that contains the session and the claim.
const ownLength = len("_c_01234567-89ab-cdef-0123-456789abcdef")

// idOf returns the claim of a node of this session. The ID of any other node is its name.
func idOf(session int64, node string) string {
	if len(node) <= ownLength || node[:3] != "_c_" {
		return node
	}
	s := digits(session)
	switch {
	case node[3:11] != string(s[:8]), node[12:16] != string(s[8:12]), node[17:21] != string(s[12:]):
		return node
	case node[11] != '-', node[16] != '-', node[21] != '-', node[26] != '-', node[39] != '-':
		return node
	}
	return node[22:26] + node[27:39]
}

// nodeOf returns the name of a new node, without its sequence number. It begins with the
// session and the claim, in the form of the UUID that Curator has there.
func nodeOf(session int64, m ordered.Mark) string {
	s := digits(session)
	all := marks()
	kind := all[slices.IndexFunc(all, func(k mark) bool { return k.kind == m.Kind })].text
	if m.Kind == ordered.Permit {
		kind = "p" + strconv.Itoa(m.Permits) + "-" + kind
	}
	return "_c_" + string(s[:8]) + "-" + string(s[8:12]) + "-" + string(s[12:]) + "-" + m.ID[:4] + "-" + m.ID[4:] + "-" + kind
}
