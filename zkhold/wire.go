package zkhold

import (
	"bufio"
	"encoding/binary"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/bounded"
)

// wire is a connection to a server. It reads some data in the packets itself, because the
// client does not return these data: the session that the server has made, the timeout of that
// session, and the czxid of a new node. wire also has shorter deadlines than the client, so
// that a connection to a server that does not respond is closed sooner.
type wire struct {
	net.Conn
	in   *bufio.Reader // a buffer, because the client reads each packet in two parts
	link *link

	handshakeDone bool // the first packet from the server has arrived, which names the session

	// The packet that is being read.
	reply   []byte // the length of the packet and its first bytes
	unread  int    // how many bytes of the packet have not arrived
	checked bool   // the method check has accepted the packet

	refusal error // why nothing is read any more; nil while packets are read

	writing sync.Mutex // locked while the client or the method watch writes
	logins  int        // how many of the credentials in Options.Auth were sent

	mu        sync.Mutex
	creations map[uint32]*creation // creations without a reply, by the number of the request
	requests  requests
}

// creation is a request that creates a node.
type creation struct {
	path  string
	sent  chan bool // receives true just before the request is sent, or false if it was not sent
	czxid uint64    // the czxid of the new node; 0 if it is not known
}

// The numbers of requests.
const (
	opCreate     = 1
	opCreate2    = 15 // creates a node as opCreate does; the reply has the node's stat, too
	opAuth       = 100
	opSetWatches = 101

	// numberSetWatches is -8, the number that clients of ZooKeeper give each opSetWatches.
	numberSetWatches = 0xfffffff8
	// mostWatches is how many watches of the longest names fit into a packet of 1 MB.
	mostWatches = 64
)

const (
	// connectResponseLength is how many bytes of the first packet are used: the length of the
	// packet, the version of the protocol, the session's timeout in milliseconds, and the
	// number of the session.
	connectResponseLength = 4 + 4 + 4 + 8
	// replyLength is how many bytes of a reply are before its data: the length of the packet,
	// the number of the request, the last transaction and an error.
	replyLength = 4 + 4 + 8 + 4
	// mostReply is how many bytes of a reply are kept: enough for the longest path of a lock.
	mostReply = 16 << 10
)

// Read reads for the client, and records the session and the czxid of new nodes. At a packet that
// the client could not bear, it closes the connection, and returns a *bounded.Refusal before the
// client has the whole packet.
func (w *wire) Read(b []byte) (int, error) {
	if w.refusal != nil {
		return 0, w.refusal
	}
	n, err := w.in.Read(b)
	good, reason := w.splitPackets(b[:max(n, 0)])
	if reason == "" {
		return n, err
	}
	w.refusal = bounded.Refuse(w.Conn, reason)
	w.link.refuse(w.refusal) // before Close, so that calls that then fail know the reason
	_ = w.Conn.Close()
	return good, w.refusal
}

// splitPackets splits the bytes that were read into packets, and reads each packet. If a packet
// must be refused, it returns the reason, and how many bytes the client may have.
func (w *wire) splitPackets(b []byte) (good int, reason string) {
	for at := 0; at < len(b); {
		if missing := 4 - len(w.reply); missing > 0 {
			n := min(missing, len(b)-at)
			w.reply = append(w.reply, b[at:at+n]...)
			if at += n; n == missing {
				w.unread = int(binary.BigEndian.Uint32(w.reply))
				if reason := w.checkLength(); reason != "" {
					return at - 1, reason
				}
			}
			continue
		}
		n := min(w.unread, len(b)-at)
		w.reply = append(w.reply, b[at:at+min(n, mostReply-len(w.reply))]...)
		w.unread -= n
		at += n
		if reason := w.check(); reason != "" {
			return at - 1, reason
		}
		if w.unread == 0 {
			if w.handshakeDone {
				w.readReply()
			} else {
				w.readConnectResponse()
			}
			w.reply, w.checked = w.reply[:0], false
		}
	}
	return len(b), ""
}

// readConnectResponse records the session that the first packet names.
func (w *wire) readConnectResponse() {
	w.handshakeDone = true
	ms := binary.BigEndian.Uint32(w.reply[8:])
	w.link.connectResponse(int64(binary.BigEndian.Uint64(w.reply[12:])), time.Duration(ms)*time.Millisecond)
}

// readReply records the czxid if the packet is the reply to a creation. In the packet, the path
// of the node is before the czxid. If the server refused watches, readReply closes the
// connection.
func (w *wire) readReply() {
	xid := binary.BigEndian.Uint32(w.reply[4:])
	if failed := binary.BigEndian.Uint32(w.reply[16:]); xid == numberSetWatches && failed != 0 {
		_ = w.Conn.Close() // with the next connection, the link ends all watches
	}
	w.mu.Lock()
	c := w.creations[xid]
	delete(w.creations, xid)
	w.mu.Unlock()
	stat := w.reply[replyLength:]
	if c == nil || len(stat) < 4 { // the reply to a creation that failed has no data
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
	if w.handshakeDone && len(b) >= 12 { // the first packet has no request number
		op = binary.BigEndian.Uint32(b[8:])
	}
	if op != 0 {
		w.ask(binary.BigEndian.Uint32(b[4:]), op)
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

// send writes complete packets. If it fails, a part of a packet may have been written, so it
// closes the connection. The caller holds w.writing.
func (w *wire) send(packets []byte) (int, error) {
	n, err := w.Conn.Write(packets)
	if err != nil {
		_ = w.Conn.Close()
	}
	return n, err
}

// watch watches nodes with "setWatches", the request with which clients restore their
// watches on a new connection. One request is enough for many nodes, and the client ignores
// its reply, which has no data. For a node that does not exist ZooKeeper sends the event of
// its deletion at once.
//
// So the client has no watches of its own, and restores none on a new connection. That avoids a
// data race in the client: when it restores watches, it reads the number of the last
// transaction without a mutex, while each reply writes that number.
//
// ZooKeeper sends no event of a node that a client has no permission to read. So the method
// watch returns errDisconnected until the client has sent all credentials.
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
		b = binary.BigEndian.AppendUint64(b, math.MaxInt64) // no events for earlier changes of data
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

// create changes a request that creates the node of a claim: its operation becomes create2,
// whose reply has the czxid. The client does not request the czxid, and ignores the rest of the
// reply. create also sends true to creation.sent. When the link has received that, it may make
// further requests, because the connection sends them after this one.
func (w *wire) create(b []byte) []byte {
	if len(b) < 16 {
		return b
	}
	path := b[16:]
	path = path[:min(len(path), int(binary.BigEndian.Uint32(b[12:])))]
	c := w.link.creationOf(string(path))
	if c == nil { // not the node of a claim
		return b
	}
	w.mu.Lock()
	if w.creations == nil {
		w.creations = make(map[uint32]*creation)
	}
	w.creations[binary.BigEndian.Uint32(b[4:])] = c
	w.mu.Unlock()
	select {
	case c.sent <- true:
	default: // endCreation has sent false
	}
	b = slices.Clone(b)
	binary.BigEndian.PutUint32(b[8:], opCreate2)
	return b
}

// beginCreation registers a creation, so that the connection recognizes its request.
func (l *link) beginCreation(path string) *creation {
	c := &creation{path: path, sent: make(chan bool, 1)}
	l.set(func() { l.creations[path] = c })
	return c
}

// creationOf returns the creation of a path, nil if there is none.
func (l *link) creationOf(path string) *creation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.creations[path]
}

// endCreation ends a creation. If the request was not sent, it sends false to creation.sent.
func (l *link) endCreation(c *creation) {
	l.set(func() { delete(l.creations, c.path) })
	select {
	case c.sent <- false:
	default: // the request was sent
	}
}

// SetReadDeadline sets a deadline that is not later than that of the client, and usually
// earlier. The client would wait nearly seven times the session timeout for the first answer of
// a server, and two thirds of the timeout for any other packet.
func (w *wire) SetReadDeadline(t time.Time) error {
	most := w.link.sessionTime() / 2
	if !w.handshakeDone {
		most = answerTimeout(most * 2)
	}
	if bound := time.Now().Add(most); t.After(bound) {
		t = bound
	}
	return w.Conn.SetReadDeadline(t)
}

// answerTimeout returns how long a server may take to answer before the client tries another
// server. The time is so short that the client can try two more servers after a renewal without
// an answer, before the locks are lost.
func answerTimeout(session time.Duration) time.Duration { return max(session/9, time.Second) }
