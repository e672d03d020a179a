package bounded

import (
	"bytes"
	"fmt"
	"strconv"
)

const (
	mostLine    = 64 << 10 // the longest text in one line, which is an error
	mostNumber  = 32       // the longest line with a number
	deepest     = 32       // the deepest nesting
	elementCost = 48       // the memory for an element of a list, without its text
)

// phase says what the next byte belongs to.
type phase uint8

const (
	atKind      phase = iota // the first byte of an element
	inText                   // a line of text
	inNumber                 // a line that is short
	inString                 // the bytes of a string
	afterString              // the carriage return after a string
	afterReturn              // the line feed after it
)

// replies follows the replies of a Redis.
type replies struct {
	phase  phase
	kind   byte // the first byte of the present element
	line   int  // how many bytes its line has so far
	number [mostNumber]byte
	last   byte  // the last byte of the line
	left   int64 // how many bytes of its string are missing
	text   text  // its text

	open       [deepest]list // the lists around the present element
	depth      int           // how many these are
	attributes int           // how many of these are attributes
	cost       int64         // the memory of the present message; the caller of follow resets it
	limit      int64         // how much that may be

	message message
}

// list is a list that is not complete.
type list struct {
	left      int64 // how many elements are missing
	attribute bool  // it is no element of the list around it, but belongs to the element after it
}

// follow follows b up to the end of the first message in it. It returns how many bytes that are,
// whether the message is complete, and why the last of these bytes must be refused, or "".
func (r *replies) follow(b []byte) (n int, complete bool, reason string) {
	for n < len(b) {
		var used int
		used, ended, reason := r.step(b[n:])
		n += used
		if reason != "" {
			return n, false, reason
		}
		if ended && r.endElement() {
			return n, true, ""
		}
	}
	return n, false, ""
}

// step follows a part of one element. It returns how many bytes that are, and whether the element
// is complete. A list with elements is not complete when its number is.
func (r *replies) step(b []byte) (n int, ended bool, reason string) {
	switch r.phase {
	case atKind:
		if reason = r.begin(b); reason != "" || r.phase != inNumber {
			return 1, false, reason
		}
		if number, size := lengthLine(b[1:]); size > 0 && b[0] != '#' && b[0] != '_' { // as usual
			ended, reason = r.endLength(int64(number))
			return 1 + size, ended, reason
		}
		return 1, false, ""
	case inText:
		return r.followText(b)
	case inNumber:
		return r.followNumber(b)
	case inString:
		n = int(min(r.left, int64(len(b))))
		r.left -= int64(n)
		r.keep(b[:n])
		if r.left == 0 {
			r.phase = afterString
		}
		return n, false, ""
	case afterString:
		r.phase = afterReturn
		return 1, false, unless(b[0] == '\r', longerString)
	default:
		return 1, true, unless(b[0] == '\n', longerString)
	}
}

const (
	longerString = "a string is longer than announced"
	brokenLine   = "a line is none of RESP"
)

// unless returns "" if ok is true, otherwise the reason.
func unless(ok bool, reason string) string {
	if ok {
		return ""
	}
	return reason
}

// begin begins an element, which is at the beginning of b.
func (r *replies) begin(b []byte) string {
	kind := b[0]
	r.kind, r.line, r.text.size, r.text.spaces = kind, 0, 0, 0
	if r.depth == 0 && kind != '|' {
		r.message = message{kind: kind, text: &r.text}
	}
	switch kind {
	case '+', '-', ',', '(':
		r.phase = inText
	case '$', '=', '!', '*', '~', '%', '|', ':', '_', '#':
		r.phase = inNumber
	case '>':
		r.phase = inNumber
		return unless(r.depth == 0, "it put a message into a reply")
	default:
		return fmt.Sprintf("the server is not a Redis: it sent %q", b[:min(len(b), 24)])
	}
	return ""
}

// followText follows a line of text.
func (r *replies) followText(b []byte) (n int, ended bool, reason string) {
	end := bytes.IndexByte(b, '\n')
	if ended = end >= 0; ended {
		b = b[:end]
	}
	if r.line += len(b); r.line > mostLine {
		return max(1, len(b)), false, fmt.Sprintf("it sent a line of %d bytes or more; the limit is %d bytes", r.line, mostLine)
	}
	if len(b) > 0 {
		r.keep(b)
		r.last = b[len(b)-1]
	}
	if !ended {
		return len(b), false, ""
	}
	r.cost += int64(r.line)
	r.text.size = r.line - 1 // without the carriage return
	if r.line == 0 || r.last != '\r' {
		return end + 1, false, brokenLine
	}
	return end + 1, true, r.tooMuch()
}

// followNumber follows a line that is short.
func (r *replies) followNumber(b []byte) (n int, ended bool, reason string) {
	for _, c := range b {
		n++
		if c == '\n' {
			ended, reason = r.endNumber(r.number[:r.line])
			return n, ended, reason
		}
		if r.line == len(r.number) || !r.mayHave(c) {
			return n, false, brokenLine
		}
		r.number[r.line] = c
		r.line++
	}
	return n, false, ""
}

// mayHave reports whether the line of a null or of a boolean value may go on with c. rueidis does
// not look for the end of these lines, so it would take a longer line for several replies.
func (r *replies) mayHave(c byte) bool {
	switch {
	case r.kind == '_':
		return r.line == 0 && c == '\r'
	case r.kind == '#' && r.line == 0:
		return c == 't' || c == 'f'
	case r.kind == '#':
		return r.line == 1 && c == '\r'
	}
	return true
}

// endNumber handles the end of a short line. It reports whether the element ends with it.
func (r *replies) endNumber(line []byte) (ended bool, reason string) {
	value, ok := bytes.CutSuffix(line, []byte{'\r'})
	switch {
	case r.kind == '_', r.kind == '#':
		return true, unless(ok, brokenLine)
	case !ok || !isNumber(bytes.TrimPrefix(value, []byte{'-'})):
		return false, brokenLine
	case r.kind == ':':
		return true, ""
	case string(value) == "-1" && (r.kind == '$' || r.kind == '*'):
		if r.depth == 0 {
			r.message.null = true
		}
		return true, ""
	}
	length, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || length < 0 || length > mostAnswer {
		return false, badLength(string(value))
	}
	return r.endLength(length)
}

func badLength(value string) string {
	return fmt.Sprintf("it announced a length of %s; the limit is %d bytes for the answers on a connection", value, mostAnswer)
}

// endLength handles the end of a line with a number that is not negative. It reports whether the
// element ends with it.
func (r *replies) endLength(length int64) (ended bool, reason string) {
	if r.kind == ':' {
		return true, ""
	}
	if length > mostAnswer {
		return false, badLength(strconv.FormatInt(length, 10))
	}
	switch r.kind {
	case '$', '=', '!':
		r.left, r.phase = length, inString
		r.cost += length
		if length == 0 {
			r.phase = afterString
		}
		return false, r.tooMuch()
	case '%', '|':
		length *= 2
	}
	return r.beginList(length)
}

// tooMuch returns that the message takes too much memory, or "".
func (r *replies) tooMuch() string {
	if r.cost <= r.limit {
		return ""
	}
	return fmt.Sprintf("it announced answers of %d bytes or more; the limit is %d bytes for the answers on a connection", mostAnswer-r.limit+r.cost, mostAnswer)
}

// beginList begins a list with so many elements. It reports whether the list is complete.
func (r *replies) beginList(length int64) (ended bool, reason string) {
	r.cost += length * elementCost
	if r.depth == 0 && r.kind != '|' {
		r.message.list, r.message.size = length > 0, length
	}
	r.phase = atKind
	switch {
	case r.cost > r.limit:
		return false, r.tooMuch()
	case length == 0 && r.kind == '|':
		return false, ""
	case length == 0:
		return true, ""
	case r.depth == len(r.open):
		return false, fmt.Sprintf("it nested lists deeper than %d", len(r.open))
	}
	r.open[r.depth] = list{length, r.kind == '|'}
	r.depth++
	if r.kind == '|' {
		r.attributes++
	}
	return false, ""
}

// endElement handles the end of an element and of the lists that it completes. It reports whether
// the message is complete.
func (r *replies) endElement() bool {
	r.phase = atKind
	if (r.kind == '-' || r.kind == '!') && r.text.lacksAddress() {
		r.message.redirects = true
	}
	if r.depth == 1 && r.attributes == 0 {
		r.note(r.message.size - r.open[0].left)
	}
	for r.depth > 0 {
		l := &r.open[r.depth-1]
		if l.left--; l.left > 0 {
			return false
		}
		if r.depth--; l.attribute {
			r.attributes--
			return false // the element follows
		}
	}
	return true
}

// note keeps what is needed of the element with this index of a message that is a list.
func (r *replies) note(index int64) {
	switch index {
	case 0:
		r.message.name.set(&r.text)
	case 1:
		r.message.about.set(&r.text)
	case 2:
		r.message.words = r.text.spaces + 1
	}
}

// keep keeps a part of the text of the present element, if it is needed.
func (r *replies) keep(b []byte) {
	failed := r.kind == '-' || r.kind == '!'
	if !failed && (r.depth > 1 || r.depth == 1 && r.message.size-r.open[0].left > 2) {
		return
	}
	r.text.add(b)
	if failed || r.depth == 1 {
		r.text.spaces += bytes.Count(b, []byte{' '})
	}
}

func isNumber(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}
