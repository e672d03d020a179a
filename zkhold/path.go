package zkhold

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

// pathOf returns the path of a lock. Different names have different paths.
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

// nameOf returns the name of the lock that has this path. `ok` is false if the path is not that
// of any name.
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

// unescape returns the part of a name from which escape made an element. `ok` is false if a
// percent sign in the element is not followed by two hexadecimal digits. The caller handles the
// element "%", and checks that escape really makes this element.
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

// escape returns a part of a name as an element of a path. The package comment has the rules.
func escape(part string) string {
	if part == "" {
		return "%"
	}
	if part == "." || part == ".." {
		return strings.ReplaceAll(part, ".", "%2E")
	}
	_, _, claim := parse(part)
	if !claim && strings.IndexFunc(part, needsEscape) < 0 {
		return part
	}
	var b strings.Builder
	for i, r := range part {
		if last := i == len(part)-1; !needsEscape(r) && !(claim && last) {
			b.WriteRune(r)
			continue
		}
		_, n := utf8.DecodeRuneInString(part[i:]) // n is 1 for a byte that is not UTF-8
		for _, c := range []byte(part[i : i+n]) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// needsEscape reports whether ZooKeeper, or one of its clients in Go and Java, does not accept
// a character. The server reads characters beyond 16 bits as pairs of surrogates. Bytes that
// are not UTF-8 need an escape, too: in a range loop they are utf8.RuneError, U+FFFD.
func needsEscape(r rune) bool {
	return r == '%' || r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// baseNames returns the texts before the sequence number in the names of nodes, with the kind of
// lock that each means. Curator, this package and kazoo use them.
func baseNames() []baseName {
	return []baseName{
		{"lock-", ordered.Mutex},
		{"__WRIT__", ordered.Writer},
		{"__READ__", ordered.Reader},
		{"__lock__", ordered.Mutex},
		{"__rlock__", ordered.Reader},
		{"lease-", ordered.Permit},
	}
}

type baseName struct {
	text string
	kind ordered.Kind
}

// parse returns the label and the sequence number in the name of a node. `ok` is false if the
// node does not belong to a claim, neither of this package nor of another program.
// Label.Permits is 0 unless the name of the node contains the number of permits. Only this
// package writes such names.
func parse(node string) (m ordered.Label, seq int32, ok bool) {
	before := strings.TrimRight(node, "0123456789")
	m.Kind = kindOf(before)
	if m.Kind == "" && strings.HasSuffix(before, "-") { // a negative number, from beyond the end of the counter
		before = before[:len(before)-1]
		m.Kind = kindOf(before)
	}
	number := node[len(before):]
	n, err := strconv.ParseInt(number, 10, 32)
	if m.Kind == "" || err != nil || len(number) < 10 {
		return ordered.Label{}, 0, false
	}
	if m.Kind == ordered.Permit {
		p, permits, found := strings.Cut(strings.TrimSuffix(before, "-lease-"), "-p")
		if found && p != "" {
			m.Permits, _ = strconv.Atoi(permits)
		}
	}
	return m, int32(n), true
}

// kindOf returns the kind of a node from its name without the sequence number, or "" if it
// is not the node of a claim.
func kindOf(before string) ordered.Kind {
	for _, k := range baseNames() {
		if strings.HasSuffix(before, k.text) {
			return k.kind
		}
	}
	return ""
}

// sessionPrefix returns how the names of the nodes of a session begin: with "_c_" and the first
// half of a UUID. Curator's protection has a UUID there, too.
func sessionPrefix(session int64) string {
	s := fmt.Sprintf("%016x", uint64(session))
	return "_c_" + s[:8] + "-" + s[8:12] + "-" + s[12:] + "-"
}

// protectionLength is the length of the first part of a node's name, which contains the
// session and the claim. Curator's protection has a UUID there.
const protectionLength = len("_c_01234567-89ab-cdef-0123-456789abcdef")

// idOf returns Label.ID for a node: the ID of the claim if the session with this prefix made the
// node, else the name of the node.
func idOf(prefix, node string) string {
	if rest, own := strings.CutPrefix(node, prefix); own && len(node) > protectionLength && rest[4] == '-' && rest[17] == '-' {
		return rest[:4] + rest[5:17]
	}
	return node
}

// nodeOf returns the name of a new node, without its sequence number. The second half of its
// UUID is the ID of the claim.
func nodeOf(session int64, m ordered.Label) string {
	all := baseNames()
	kind := all[slices.IndexFunc(all, func(k baseName) bool { return k.kind == m.Kind })].text
	if m.Kind == ordered.Permit {
		kind = "p" + strconv.Itoa(m.Permits) + "-" + kind
	}
	return sessionPrefix(session) + m.ID[:4] + "-" + m.ID[4:] + "-" + kind
}
