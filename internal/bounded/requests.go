package bounded

import "strings"

// request says which reply a command must get.
type request uint8

const (
	anything    request = iota
	confirmed           // the command subscribes: it gets a message, or an error
	unconfirmed         // the command ends subscriptions: it gets any number of messages, or an error
	pong                // a PING after that command, with which rueidis notices its end
	aRole               // ROLE: rueidis reads the first element without a check
	anAddress           // the address of a master: rueidis reads two elements without a check
)

// requests follows the commands of a client, and remembers those without a reply.
type requests struct {
	asked    []pending // in their order; those before `first` are answered
	first    int
	written  int64 // the number of commands so far
	answered int64 // how many of them have their reply

	pubsub        bool // the connection was used for subscriptions
	resp3         bool // the client asked for RESP3
	confirmations int  // how many confirmations rueidis takes without a command
	unknown       bool // the client sent something else than commands
	ending        ending

	// The command that is being written.
	line      [mostNumber]byte
	length    int // how many bytes the line has so far
	arguments int // how many arguments are missing; 0 between commands
	count     int // how many it has
	left      int // how many bytes of the argument and of its line end are missing
	words     [2]name
}

// pending is a number of commands in a row that wait for the same kind of reply.
type pending struct {
	request request
	count   int // for confirmed, the number of channels; for unconfirmed, the messages that came
}

// ending is the state of the last command if that ends subscriptions. rueidis sends a PING after
// such a command, and awaits one reply to both.
type ending uint8

const (
	otherCommand ending = iota
	notEnded            // the command has no reply
	endFailed           // its reply was an error, so the PING has a reply, too
	hasEnded            // rueidis took a reply for that to the PING, before the PING was sent
)

// follow follows what the client sends.
func (r *requests) follow(b []byte) {
	for len(b) > 0 && !r.unknown {
		switch {
		case r.left > 0:
			n := min(r.left, len(b))
			r.keep(b[:n])
			if r.left, b = r.left-n, b[n:]; r.left == 0 {
				r.endArgument()
			}
		case r.length == 0:
			number, size := lengthLine(b[1:])
			if size == 0 { // the line is not complete, or is none
				b = r.followLine(b)
				continue
			}
			r.endLine(b[0], number)
			b = b[1+size:]
		default:
			b = r.followLine(b)
		}
	}
}

// lengthLine returns the number in the line at the beginning of b, and how many bytes the line
// has. It returns 0 for both if the line is not complete, or is no number that is short and not
// negative.
func lengthLine(b []byte) (number, size int) {
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9' && i < 15:
			number = number*10 + int(c-'0')
		case c == '\r' && i > 0 && i+1 < len(b) && b[i+1] == '\n':
			return number, i + 2
		default:
			return 0, 0
		}
	}
	return 0, 0
}

// followLine follows a line that is in more than one part, and returns what follows it.
func (r *requests) followLine(b []byte) []byte {
	for i, c := range b {
		if r.length == len(r.line) {
			break
		}
		r.line[r.length] = c
		if r.length++; c == '\n' {
			number, size := lengthLine(r.line[1:r.length])
			if size == 0 {
				break
			}
			r.endLine(r.line[0], number)
			r.length = 0
			return b[i+1:]
		}
		if i == len(b)-1 {
			return nil
		}
	}
	r.unknown = true
	return nil
}

// endLine handles a line, which has the number of arguments or the length of an argument.
func (r *requests) endLine(kind byte, number int) {
	switch {
	case kind == '*' && r.arguments == 0 && number > 0:
		r.arguments, r.count = number, number
	case kind == '$' && r.arguments > 0:
		r.left = number + len("\r\n")
		if word := r.count - r.arguments; word < len(r.words) {
			r.words[word].size = 0
		}
	default:
		r.unknown = true
	}
}

// keep keeps the beginning of an argument, if it is one of the first two.
func (r *requests) keep(b []byte) {
	if word := r.count - r.arguments; word < len(r.words) {
		w := &r.words[word]
		if w.size < len(w.begin) {
			copy(w.begin[w.size:], b)
		}
		w.size += len(b)
	}
}

func (r *requests) endArgument() {
	if word := r.count - r.arguments; word < len(r.words) {
		r.words[word].size -= len("\r\n")
	}
	if r.arguments--; r.arguments == 0 {
		r.endCommand()
	}
}

// endCommand remembers a command.
func (r *requests) endCommand() {
	if r.count < 2 {
		r.words[1].size = 0
	}
	want := r.want()
	r.written++
	if want.count == 0 && want.request == pong { // rueidis awaits no reply
		r.answered++
		return
	}
	if last := r.last(); want.request == anything && last != nil && last.request == anything {
		last.count++
		return
	}
	r.asked = append(r.asked, want)
}

// want returns what the command that was written gets.
func (r *requests) want() pending {
	ending := r.ending
	r.ending = otherCommand
	switch name := r.words[0].known(); string(name) {
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE":
		r.pubsub = true
		return pending{confirmed, r.count - 1}
	case "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		r.pubsub, r.ending = true, notEnded
		return pending{unconfirmed, 0}
	case "PING":
		switch ending {
		case notEnded, endFailed:
			return pending{pong, 1}
		case hasEnded:
			return pending{pong, 0}
		}
	case "ROLE":
		return pending{aRole, 1}
	case "SENTINEL":
		if strings.EqualFold(r.words[1].String(), "GET-MASTER-ADDR-BY-NAME") {
			return pending{anAddress, 1}
		}
	case "HELLO":
		r.resp3 = r.resp3 || r.words[1].is("3")
	}
	return pending{anything, 1}
}

// last returns the last commands without a reply, nil if there are none.
func (r *requests) last() *pending {
	if r.first == len(r.asked) {
		r.asked, r.first = r.asked[:0], 0
		return nil
	}
	if r.first > 64 {
		r.asked = r.asked[:copy(r.asked, r.asked[r.first:])]
		r.first = 0
	}
	return &r.asked[len(r.asked)-1]
}

// next returns the first command without a reply, nil if there is none.
func (r *requests) next() *pending {
	if r.first == len(r.asked) {
		return nil
	}
	return &r.asked[r.first]
}

// end records that the first command without a reply has it.
func (r *requests) end() {
	r.answered++
	p := &r.asked[r.first]
	if p.request == anything && p.count > 1 {
		p.count--
		return
	}
	r.first++
}

// answer handles a message of the server, and returns why it must be refused, or "". It makes the
// same decisions as rueidis, which panics if a message fits no command.
func (r *requests) answer(m *message) string {
	if reason := m.broken(); reason != "" || r.unknown {
		return reason
	}
	if m.kind == '>' || r.pubsub && !r.resp3 && m.list && !m.name.is("pong") {
		return r.notified(m)
	}
	next := r.next()
	if next == nil {
		return "it sent a reply that no command asked for"
	}
	switch next.request {
	case anything:
	case confirmed:
		if !m.failed() || m.text.is("QUEUED") {
			return "it sent a reply to a command that subscribes"
		}
	case unconfirmed:
		return r.unsubscribed(m)
	case pong:
		if !m.ends() {
			return "it sent another reply than the one to PING"
		}
	case aRole:
		return r.least(m, 1)
	case anAddress:
		return r.least(m, 2)
	}
	r.end()
	return ""
}

// least ends a command whose reply must have so many elements if it is a list.
func (r *requests) least(m *message, size int64) string {
	if (m.kind == '*' || m.kind == '~') && !m.null && m.size < size {
		return "it sent a reply with too few parts"
	}
	r.end()
	return ""
}

// unsubscribed handles the reply to a command that ends subscriptions. The usual reply is that to
// the PING after it, and comes after a message for each subscription.
func (r *requests) unsubscribed(m *message) string {
	ended := endFailed
	switch {
	case m.ends() && r.next().count > 0:
		ended = hasEnded
	case m.ends(), !m.failed(), m.text.is("QUEUED"), m.text.size > len(m.text.begin):
		return "it sent a reply to a command that ends subscriptions"
	}
	r.end()
	switch next := r.next(); {
	case next == nil && r.ending == notEnded:
		r.ending = ended
	case next != nil && next.request == pong && ended == hasEnded:
		r.end()
	}
	return ""
}

// notified handles a message that is no reply.
func (r *requests) notified(m *message) string {
	if m.size < 2 {
		return ""
	}
	switch m.name.String() {
	case "subscribe", "psubscribe", "ssubscribe":
		if r.confirmations > 0 {
			r.confirmations--
			return ""
		}
		next := r.next()
		if next == nil || next.request != confirmed {
			return "it confirmed a subscription that no command asked for"
		}
		r.confirmations = next.count - 1
		r.end()
	case "unsubscribe", "punsubscribe", "sunsubscribe":
		if next := r.next(); r.confirmations > 0 {
			r.confirmations--
		} else if next != nil && next.request == unconfirmed {
			next.count++
		}
	case "message":
		return m.brokenEvent()
	}
	return ""
}
