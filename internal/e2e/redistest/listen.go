package redistest

import (
	"fmt"
	"sync"
	"time"
)

// Message is one published message.
type Message struct{ Channel, Payload string }

// Listener collects published messages.
type Listener struct {
	admin Admin
	conn  *conn
	done  chan struct{} // closed when the reading goroutine has ended

	mu     sync.Mutex
	got    []Message
	change chan struct{} // closed and replaced with every message
}

// Listen collects the messages of all channels that match pattern, as in
// PSUBSCRIBE ("*" for all). It returns when the server has confirmed the
// subscription. Stop ends it; a bound Admin stops it with its test. It does not
// subscribe again when its connection breaks.
func (a Admin) Listen(pattern string) *Listener {
	a.helper()
	return a.listen("PSUBSCRIBE", pattern)
}

// ListenSharded collects the messages of one sharded channel, as in SSUBSCRIBE.
// It is otherwise like Listen.
func (a Admin) ListenSharded(channel string) *Listener {
	a.helper()
	return a.listen("SSUBSCRIBE", channel)
}

func (a Admin) listen(command, channel string) *Listener {
	a.helper()
	c := a.mustDial()
	if err, ok := c.do(command, channel).(error); ok {
		c.close()
		a.fail(err)
	}
	_ = c.SetDeadline(time.Time{}) // a listener waits as long as it takes; an error shows at the first read
	l := &Listener{admin: a, conn: c, done: make(chan struct{}), change: make(chan struct{})}
	go l.read()
	if a.t != nil {
		a.t.Cleanup(l.Stop)
	}
	return l
}

// Stop ends the subscription and waits for its goroutine. What was collected
// stays readable. It may be called more than once.
func (l *Listener) Stop() {
	l.conn.close()
	<-l.done
}

// Messages returns what has arrived so far, in order.
func (l *Listener) Messages() []Message {
	got, _ := l.snapshot()
	return got
}

// Wait returns the messages that have arrived as soon as there are n of them.
// After 5 s, or when the connection ends before, it fails the test.
func (l *Listener) Wait(n int) []Message {
	l.admin.helper()
	timeout := time.NewTimer(replyLimit)
	defer timeout.Stop()
	for {
		got, change := l.snapshot()
		if len(got) >= n {
			return got
		}
		select {
		case <-change:
		case <-l.done:
			if got, _ := l.snapshot(); len(got) >= n {
				return got
			}
			l.admin.fail(fmt.Errorf("listener ended after %d of %d messages: %v", len(got), n, got))
		case <-timeout.C:
			l.admin.fail(fmt.Errorf("got %d of %d messages within %v: %v", len(got), n, replyLimit, got))
		}
	}
}

func (l *Listener) snapshot() ([]Message, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Message(nil), l.got...), l.change
}

func (l *Listener) read() {
	defer close(l.done)
	for {
		raw, err := l.conn.resp.Read()
		if err != nil {
			return
		}
		if m, ok := message(parse(raw)); ok {
			l.add(m)
		}
	}
}

func (l *Listener) add(m Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, m)
	close(l.change)
	l.change = make(chan struct{})
}

// message decodes ["pmessage", pattern, channel, payload] and
// ["smessage", channel, payload].
func message(v any) (Message, bool) {
	list, _ := v.([]any)
	if len(list) < 3 || (list[0] != "pmessage" && list[0] != "smessage") {
		return Message{}, false
	}
	channel, _ := list[len(list)-2].(string)
	payload, _ := list[len(list)-1].(string)
	return Message{Channel: channel, Payload: payload}, true
}
