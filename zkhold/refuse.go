package zkhold

import (
	"encoding/binary"
	"fmt"
	"time"
)

const (
	// mostPacket is how many bytes a packet may have. Java clients read 1 MB by default. A list
	// of children is the longest packet: 4 MB are the names of about 50,000 locks in one folder.
	mostPacket = 4 << 20
	// mostReplies is how many bytes of memory the replies to requests that are under way together
	// may take.
	mostReplies = 16 << 20
	// mostGreeting is how many bytes the first packet may have. It has about 40.
	mostGreeting = 1 << 10
	// shortestSession is shorter than a session of any ZooKeeper. The client sends six pings in
	// the timeout of the session.
	shortestSession = 10 * time.Millisecond
	// checkedLength is how many bytes of a reply are checked before the rest arrives: those of
	// replyLength, and the number with which the data of some replies begin.
	checkedLength = replyLength + 4
	// childCost is the memory for a child in a list, without its name.
	childCost = 16
)

// The numbers of requests whose replies the client reads without a check.
const (
	opGetData      = 4
	opGetChildren  = 8
	opGetChildren2 = 12
	opMulti        = 14
)

// requests remembers requests without a reply.
type requests struct {
	unchecked map[uint32]uint32 // the operations whose replies must be checked, by the number of the request
	written   int               // the number of requests so far
	answered  int               // how many of them have a reply
	until     int               // the number of the request whose reply ends the sum `spent`
	spent     int               // the memory of replies
}

// ask remembers a request.
func (w *wire) ask(xid, op uint32) {
	if int32(xid) < 0 { // a ping or an authentication
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &w.requests
	r.written++
	switch op {
	case opGetData, opGetChildren, opGetChildren2, opMulti:
		if r.unchecked == nil {
			r.unchecked = make(map[uint32]uint32)
		}
		r.unchecked[xid] = op
	}
}

// checkLength returns why a packet of this length must be refused, or "". The client would
// allocate as many bytes, and would read the header of a reply without a check.
func (w *wire) checkLength() string {
	length := int(int32(w.unread))
	if !w.handshakeDone {
		if length < connectResponseLength || length > mostGreeting {
			return fmt.Sprintf("the server is not a ZooKeeper: it sent %q", w.reply[:4])
		}
		return ""
	}
	switch {
	case length < replyLength-4:
		return fmt.Sprintf("it announced a packet of %d bytes; no reply is shorter than %d bytes", length, replyLength-4)
	case length > mostPacket:
		return fmt.Sprintf("it announced a packet of %d bytes; the limit is %d bytes", length, mostPacket)
	}
	return ""
}

// check returns why the present packet must be refused, or "". It checks the numbers that the
// client uses without a check: to allocate memory, and as indexes.
func (w *wire) check() string {
	switch {
	case w.checked || w.unread > 0 && len(w.reply) < checkedLength:
		return ""
	case !w.handshakeDone:
		return w.checkGreeting()
	}
	xid, failed := binary.BigEndian.Uint32(w.reply[4:]), binary.BigEndian.Uint32(w.reply[16:]) != 0
	w.mu.Lock()
	defer w.mu.Unlock()
	op := w.requests.unchecked[xid]
	if op == opMulti && w.unread > 0 && len(w.reply) < mostReply {
		return "" // the whole packet is needed
	}
	w.checked = true
	delete(w.requests.unchecked, xid)
	length := int(binary.BigEndian.Uint32(w.reply))
	cost, reason := length, ""
	switch {
	case failed:
	case op == opMulti:
		reason = checkMulti(w.reply[replyLength:], w.unread)
	case op != 0:
		var more int
		more, reason = checkData(op, w.reply[replyLength:], length-(checkedLength-4))
		cost += more
	}
	if reason != "" {
		return reason
	}
	return w.requests.spend(xid, cost)
}

// checkGreeting checks the first packet.
func (w *wire) checkGreeting() string {
	if w.unread > 0 {
		return ""
	}
	w.checked = true
	timeout := time.Duration(int32(binary.BigEndian.Uint32(w.reply[8:]))) * time.Millisecond
	session := binary.BigEndian.Uint64(w.reply[12:])
	password := int32(binary.BigEndian.Uint32(w.reply[connectResponseLength:]))
	switch {
	case int(password) > len(w.reply)-connectResponseLength-4:
		return fmt.Sprintf("it announced a password of %d bytes in a packet of %d bytes", password, len(w.reply)-4)
	case session != 0 && timeout < shortestSession:
		return fmt.Sprintf("it made a session of %v; no ZooKeeper makes one so short", timeout)
	}
	return ""
}

// checkData checks a reply with a list or with data. It has so many bytes after the number with
// which it begins. It returns the memory for the list.
func checkData(op uint32, data []byte, rest int) (cost int, reason string) {
	if len(data) < 4 {
		return 0, "" // the client returns an error
	}
	number := int(binary.BigEndian.Uint32(data))
	switch {
	case op == opGetData && int32(number) < 0: // no data
		return 0, ""
	case op == opGetData && number > rest:
		return 0, fmt.Sprintf("it announced data of %d bytes in a packet with %d bytes more", number, rest)
	case op != opGetData && number > rest/4:
		return 0, fmt.Sprintf("it announced a list of %d names in a packet with %d bytes more", number, rest)
	case op == opGetData:
		return number, ""
	}
	return number * childCost, ""
}

// checkMulti checks the reply to a transaction, of which `unread` bytes are missing. It reads the
// reply as the client does, which reads the header of a result without a check.
func checkMulti(b []byte, unread int) string {
	const (
		header  = 9
		failed  = 0xffffffff
		setData = 5
		stat    = 68
		check   = 13
		remove  = 2
	)
	for unread == 0 && len(b) >= header {
		op, done := binary.BigEndian.Uint32(b), b[4] != 0
		if b = b[header:]; done {
			return ""
		}
		size := 0
		switch op {
		case failed:
			size = 4
		case opCreate:
			if len(b) < 4 {
				return brokenMulti
			}
			size = 4 + int(binary.BigEndian.Uint32(b))
		case setData:
			size = stat
		case check, remove:
		default:
			return "" // the client returns an error
		}
		if size > len(b) {
			return brokenMulti
		}
		b = b[size:]
	}
	return brokenMulti
}

const brokenMulti = "it sent a reply to a transaction that is not complete"

// spend adds the memory of a reply. It returns why that is too much, or "".
func (r *requests) spend(xid uint32, cost int) string {
	r.spent += cost
	if r.spent > mostReplies {
		return fmt.Sprintf("it announced replies of %d bytes or more; the limit is %d bytes for replies that are under way together", r.spent, mostReplies)
	}
	if int32(xid) < 0 { // an event, or the reply to a ping
		r.spent -= cost
		return ""
	}
	if r.answered++; r.answered >= r.until {
		r.spent, r.until = 0, r.written
	}
	return ""
}
