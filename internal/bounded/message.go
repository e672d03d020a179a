package bounded

import "bytes"

// message is a reply of a Redis, or a message that no command asked for.
type message struct {
	kind  byte
	null  bool  // it is a list or a string that does not exist
	list  bool  // it is a list with at least one element
	size  int64 // how many elements this list has
	text  *text // the text of a message that is no list
	name  name  // the text of its first element; empty if that is no text
	about name  // the text of its second element
	words int   // how many words its third element has

	redirects bool // an error in it names no address to which it redirects
}

// failed reports whether the message is an error.
func (m *message) failed() bool { return m.kind == '-' || m.kind == '!' }

// ends reports whether rueidis takes the message for the reply to a PING, or for an error of it.
func (m *message) ends() bool {
	if m.list {
		return m.name.is("pong")
	}
	known := m.text.known()
	return m.text.is("PONG") ||
		m.kind == '-' && (bytes.HasPrefix(known, []byte("LOADING")) || bytes.HasPrefix(known, []byte("BUSY")) || bytes.Contains(known, []byte("'ping'")))
}

// broken returns why rueidis cannot read the message, or "".
func (m *message) broken() string {
	if m.redirects {
		return "it sent a redirection without an address"
	}
	return ""
}

// brokenEvent returns why rueidis cannot read the event of a Sentinel, or "". It reads the words
// of these events without a check.
func (m *message) brokenEvent() string {
	least := map[string]int{"+sentinel": 4, "+switch-master": 5, "+reboot": 4}[m.about.String()]
	if m.size >= 3 && m.words < least {
		return "it sent an event of a Sentinel with too few words"
	}
	return ""
}

// lacksAddress reports whether an error redirects to no address. rueidis reads the address
// without a check.
func (t *text) lacksAddress() bool {
	known, spaces := t.known(), t.spaces
	if rest, ok := bytes.CutPrefix(known, []byte("ERR ")); ok {
		known, spaces = rest, spaces-1
	}
	switch {
	case bytes.HasPrefix(known, []byte("MOVED")), bytes.HasPrefix(known, []byte("ASK")):
		return spaces < 2
	case bytes.HasPrefix(known, []byte("REDIRECT")):
		return spaces < 1
	}
	return false
}

// text is the beginning of a text, which may be long.
type text struct {
	begin  [256]byte
	size   int // how many bytes the whole text has
	spaces int // how many of them are spaces, if the text is an error or the element of a message
}

func (t *text) add(b []byte) {
	if t.size < len(t.begin) {
		copy(t.begin[t.size:], b)
	}
	t.size += len(b)
}

// known returns the part of the text that is known.
func (t *text) known() []byte { return t.begin[:min(t.size, len(t.begin))] }

func (t *text) is(want string) bool { return t.size == len(want) && string(t.known()) == want }

// name is a short text. A longer text has the right size, but only its beginning is known.
type name struct {
	begin [24]byte
	size  int
}

func (n *name) known() []byte { return n.begin[:min(n.size, len(n.begin))] }

// String returns the text, or "" if it is too long to be known.
func (n *name) String() string {
	if n.size > len(n.begin) {
		return ""
	}
	return string(n.known())
}

func (n *name) is(want string) bool { return n.size == len(want) && string(n.known()) == want }

func (n *name) set(t *text) {
	n.size = t.size
	copy(n.begin[:], t.known())
}
