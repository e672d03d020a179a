package delay

import "syscall"

// end is one socket of a connection, of the client or of the server.
type end struct {
	fd      int
	peer    *end
	mask    uint32 // the events that it is registered for
	onWay   int    // bytes that were read here and are not written at peer
	backlog []byte // due, but the socket took no more
	ended   bool   // nothing more can be read here
	ending  bool   // nothing more will be written here, but the backlog
	dead    bool   // closed
}

// read takes what there is, once: epoll reports again if there is more.
func (e *end) read(p *Proxy) {
	if e.ended {
		return
	}
	n, err := syscall.Read(e.fd, p.room[:])
	if err == syscall.EAGAIN || err == syscall.EINTR { //nolint:errorlint // an Errno, never wrapped
		return
	}
	if err != nil || n == 0 {
		n, e.ended = 0, true
	}
	e.onWay += n
	p.queue.push(p.now()+p.delay, e.peer, p.room[:n])
	e.watch(p)
}

// write writes the backlog and data, and keeps what the socket does not take.
func (e *end) write(p *Proxy, data []byte) {
	if e.dead {
		return
	}
	if len(e.backlog) > 0 {
		e.backlog = append(e.backlog, data...)
		data = e.backlog
	}
	n, err := syscall.Write(e.fd, data)
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR: //nolint:errorlint // an Errno, never wrapped
		n = 0
	case err != nil: // that side is gone
		e.peer.close(p)
		e.close(p)
		return
	}
	e.peer.onWay -= n
	e.backlog = append(e.backlog[:0], data[n:]...)
	if e.ending && len(e.backlog) == 0 {
		e.finish(p)
	}
	e.watch(p)
	e.peer.watch(p)
}

// finish says at this socket that the other one has ended.
func (e *end) finish(p *Proxy) {
	e.ending = true
	if e.dead || len(e.backlog) > 0 {
		return
	}
	if e.peer.ending && len(e.peer.backlog) == 0 {
		e.peer.close(p)
		e.close(p)
		return
	}
	_ = syscall.Shutdown(e.fd, syscall.SHUT_WR)
}

func (e *end) close(p *Proxy) {
	if !e.dead {
		e.dead = true
		delete(p.ends, int32(e.fd)) //nolint:gosec // a number of a file is small
		_ = syscall.Close(e.fd)     // which ends its registration
	}
}

// watch registers for what is wanted now. A socket that is wanted for nothing is not
// registered: epoll would report its end all the time.
func (e *end) watch(p *Proxy) {
	var want uint32
	if !e.ended && e.onWay < window {
		want = syscall.EPOLLIN
	}
	if len(e.backlog) > 0 {
		want |= syscall.EPOLLOUT
	}
	if want == e.mask || e.dead {
		return
	}
	operation := syscall.EPOLL_CTL_MOD
	switch {
	case want == 0:
		operation = syscall.EPOLL_CTL_DEL
	case e.mask == 0:
		operation = syscall.EPOLL_CTL_ADD
	}
	_ = p.register(operation, e.fd, want)
	e.mask = want
}
