package zkhold

import (
	"bufio"
	"encoding/binary"
	"math"
	"net"
	"slices"
	"sync"
	"time"
)

// wire is a connection to a server. It reads what the client keeps to itself: which
// session the server has given, and for how long, and the czxid of a node that was made.
// And it gives the connection up sooner.
type wire struct {
	net.Conn
	in   *bufio.Reader // the client reads each packet in two parts
	link *link

	greeted bool // the first packet from the server has arrived, which says what the session is

	// What is read of the packet that arrives.
	reply []byte // its length and what comes first in it
	rest  int    // so much of it is still to come

	writing sync.Mutex // of the client, and of watch
	logins  int        // of Options.Auth, that were sent

	mu     sync.Mutex
	making map[uint32]*creation // that were sent, by the number of the request
}

// creation is a request for a node, from before it is sent until it is answered.
type creation struct {
	path  string
	sent  chan bool // receives true when it is sent, false if it was not
	czxid uint64    // 0 if it is not known
}

// The numbers of requests.
const (
	opCreate     = 1
	opCreate2    = 15 // create, whose reply has the node's stat, too
	opAuth       = 100
	opSetWatches = 101

	// numberSetWatches is -8, the number that clients of ZooKeeper give each such request.
	numberSetWatches = 0xfffffff8
	// mostWatches is how many watches of the longest names fit into a packet of 1 MB.
	mostWatches = 64
)

const (
	// greetingLength is how much of the first packet is used: its length, the version of
	// the protocol, the timeout of the session in milliseconds and its number.
	greetingLength = 4 + 4 + 4 + 8
	// replyLength is how long a reply is before what was asked for: its length, the number
	// of the request, the last transaction and an error.
	replyLength = 4 + 4 + 8 + 4
	// mostReply is how much of a reply is kept: enough for the longest path of a lock.
	mostReply = 16 << 10
)

// Read reads, and takes note of the session and of nodes that were made.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.in.Read(b)
	w.scan(b[:max(n, 0)])
	return n, err
}

// scan takes what was read apart into packets.
func (w *wire) scan(b []byte) {
	for len(b) > 0 {
		if missing := 4 - len(w.reply); missing > 0 {
			n := min(missing, len(b))
			w.reply, b = append(w.reply, b[:n]...), b[n:]
			if n == missing {
				w.rest = int(binary.BigEndian.Uint32(w.reply))
			}
			continue
		}
		n := min(w.rest, len(b))
		w.reply = append(w.reply, b[:min(n, mostReply-len(w.reply))]...)
		w.rest, b = w.rest-n, b[n:]
		if w.rest == 0 {
			if w.greeted {
				w.answered()
			} else {
				w.greet()
			}
			w.reply = w.reply[:0]
		}
	}
}

// greet takes note of the session that the first packet is about.
func (w *wire) greet() {
	if len(w.reply) < greetingLength {
		return // the client gives up
	}
	w.greeted = true
	ms := binary.BigEndian.Uint32(w.reply[8:])
	w.link.greeted(int64(binary.BigEndian.Uint64(w.reply[12:])), time.Duration(ms)*time.Millisecond)
}

// answered takes note of the czxid if the reply is that to a creation, where the path comes
// before it. If watches were refused, it closes the connection.
func (w *wire) answered() {
	if len(w.reply) < replyLength {
		return
	}
	xid := binary.BigEndian.Uint32(w.reply[4:])
	if failed := binary.BigEndian.Uint32(w.reply[16:]); xid == numberSetWatches && failed != 0 {
		_ = w.Conn.Close() // there are no such watches: the next connection ends all of them
	}
	w.mu.Lock()
	c := w.making[xid]
	delete(w.making, xid)
	w.mu.Unlock()
	stat := w.reply[replyLength:]
	if c == nil || len(stat) < 4 { // a creation that failed has nothing here
		return
	}
	path := int(binary.BigEndian.Uint32(stat))
	if stat = stat[4:]; path >= 0 && path <= len(stat)-8 {
		c.czxid = binary.BigEndian.Uint64(stat[path:])
	}
}

// Write writes a request.
func (w *wire) Write(b []byte) (int, error) {
	var op uint32
	if w.greeted && len(b) >= 12 { // the packet before that has no number of a request
		op = binary.BigEndian.Uint32(b[8:])
	}
	if op == opCreate {
		b = w.create(b)
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	if op == opAuth {
		w.logins++
	}
	return w.send(b)
}

// send writes whole packets. After an error a part of one may have been written, so the
// connection is of no use. The mutex writing is held.
func (w *wire) send(packets []byte) (int, error) {
	n, err := w.Conn.Write(packets)
	if err != nil {
		_ = w.Conn.Close()
	}
	return n, err
}

// watch asks for watches of nodes, with the request by which clients ask again on a new
// connection. It is one request for all nodes, and its answer, which the client ignores,
// has no data. For a node that is not there ZooKeeper sends the event of its deletion at
// once.
//
// The client has no watches of its own therefore, and does not ask for them on a new
// connection. When it does, it reads without a lock from which transaction on it asks,
// while any answer writes that.
//
// ZooKeeper sends no event of a node that a client may not read, so a watch is not
// requested before the client has sent all credentials.
func (w *wire) watch(paths []string) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	if w.logins < len(w.link.opts.Auth) {
		return errDisconnected
	}
	for some := range slices.Chunk(paths, mostWatches) {
		b := make([]byte, 4, 64+len(some)*(4+len(some[0])))
		b = binary.BigEndian.AppendUint32(b, numberSetWatches)
		b = binary.BigEndian.AppendUint32(b, opSetWatches)
		b = binary.BigEndian.AppendUint64(b, math.MaxInt64) // no event for changes of the data before
		b = binary.BigEndian.AppendUint32(b, uint32(len(some)))
		for _, path := range some {
			b = binary.BigEndian.AppendUint32(b, uint32(len(path)))
			b = append(b, path...)
		}
		b = append(b, 0, 0, 0, 0, 0, 0, 0, 0) // no watches of other kinds
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		if _, err := w.send(b); err != nil {
			return err
		}
	}
	return nil
}

// create returns the request for a node as one whose reply has the czxid, which the client
// does not ask for: it takes what it knows of that reply. The request is about to be sent:
// what is asked for from now on comes after it.
func (w *wire) create(b []byte) []byte {
	if len(b) < 16 {
		return b
	}
	path := b[16:]
	path = path[:min(len(path), int(binary.BigEndian.Uint32(b[12:])))]
	c := w.link.created(string(path))
	if c == nil { // not the node of a claim
		return b
	}
	w.mu.Lock()
	if w.making == nil {
		w.making = make(map[uint32]*creation)
	}
	w.making[binary.BigEndian.Uint32(b[4:])] = c
	w.mu.Unlock()
	select {
	case c.sent <- true:
	default: // who asked has given up
	}
	b = slices.Clone(b)
	binary.BigEndian.PutUint32(b[8:], opCreate2)
	return b
}

// announce reports to the connection of a creation.
func (l *link) announce(path string) *creation {
	c := &creation{path: path, sent: make(chan bool, 1)}
	l.set(func() { l.making[path] = c })
	return c
}

// created returns the creation of a path, nil if there is none.
func (l *link) created(path string) *creation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.making[path]
}

// answered ends a creation.
func (l *link) answered(c *creation) {
	l.set(func() { delete(l.making, c.path) })
	select {
	case c.sent <- false:
	default: // it was sent
	}
}

// SetReadDeadline bounds what the client waits for. The first answer of a server it would
// wait for nearly seven times the session's time, and without anything to read for two
// thirds of it.
func (w *wire) SetReadDeadline(t time.Time) error {
	most := w.link.sessionTime() / 2
	if !w.greeted {
		most = answerTimeout(most * 2)
	}
	if bound := time.Now().Add(most); t.After(bound) {
		t = bound
	}
	return w.Conn.SetReadDeadline(t)
}

// answerTimeout is the timeout of a server to answer before another one is asked: so that
// two can be tried after a renewal that was not answered, before the locks are lost.
func answerTimeout(session time.Duration) time.Duration { return max(session/9, time.Second) }
