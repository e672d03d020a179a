package delay

import (
	"fmt"
	"net"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// Proxy is a proxy that listens.
type Proxy struct {
	poll     int // the epoll
	listener int
	stop     [2]int // a pipe, written to by Close
	server   syscall.SockaddrInet4
	delay    time.Duration
	begun    time.Time
	ends     map[int32]*end // by socket
	queue    parcels
	room     [64 << 10]byte
	until    syscall.Timespec
}

// Listen returns a Proxy that accepts connections at addr once it runs, and connects each with
// server. Every byte takes `delay` longer, in each direction. Both addresses are of IPv4.
func Listen(addr, server string, delay time.Duration) (*Proxy, error) {
	p := &Proxy{delay: delay, begun: time.Now(), ends: map[int32]*end{}}
	own, err := address(addr)
	if err != nil {
		return nil, err
	}
	if p.server, err = address(server); err != nil {
		return nil, err
	}
	if p.poll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if err := syscall.Pipe2(p.stop[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return nil, err
	}
	if p.listener, err = socket(syscall.SOCK_NONBLOCK); err != nil {
		return nil, err
	}
	_ = syscall.SetsockoptInt(p.listener, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err := syscall.Bind(p.listener, &own); err != nil {
		return nil, fmt.Errorf("listen at %s: %w", addr, err)
	}
	if err := syscall.Listen(p.listener, 1024); err != nil {
		return nil, err
	}
	for _, fd := range []int{p.listener, p.stop[0]} {
		if err := p.register(syscall.EPOLL_CTL_ADD, fd, syscall.EPOLLIN); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func address(text string) (a syscall.SockaddrInet4, err error) {
	tcp, err := net.ResolveTCPAddr("tcp4", text)
	if err != nil {
		return a, err
	}
	a.Port = tcp.Port
	copy(a.Addr[:], tcp.IP.To4())
	return a, nil
}

func socket(flags int) (int, error) {
	return syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|flags, 0)
}

// Close ends Run.
func (p *Proxy) Close() { _, _ = syscall.Write(p.stop[1], []byte{0}) }

// Run serves connections until Close is called. While it waits, other goroutines run only if
// GOMAXPROCS is 2 or more.
func (p *Proxy) Run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// By default the system may wake a thread 0.05 ms late.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_TIMERSLACK, 1, 0)
	defer p.shut()
	var events [256]syscall.EpollEvent
	for {
		p.deliver()
		n, err := p.wait(events[:])
		if err != nil {
			return err
		}
		for _, event := range events[:n] {
			switch int(event.Fd) {
			case p.stop[0]:
				return nil
			case p.listener:
				p.accept()
			default:
				p.serve(event)
			}
		}
	}
}

func (p *Proxy) shut() {
	for _, e := range p.ends {
		e.close(p)
	}
	for _, fd := range []int{p.poll, p.listener, p.stop[0], p.stop[1]} {
		_ = syscall.Close(fd)
	}
}

func (p *Proxy) now() time.Duration { return time.Since(p.begun) }

// pwait2 is epoll_pwait2 on every architecture.
const pwait2 = 441

// wait returns the events that are there, or waits for one until the next parcel is due. Go is
// not notified that the thread waits: otherwise Go wakes another thread after each wait, which
// costs as much time as the rest of the proxy. So this goroutine keeps its place of GOMAXPROCS,
// and the signals of Go's scheduler end a wait every 10 ms.
func (p *Proxy) wait(events []syscall.EpollEvent) (int, error) {
	var until *syscall.Timespec
	if !p.queue.empty() {
		p.until = syscall.NsecToTimespec(max(0, p.queue.list[p.queue.head].due-p.now()).Nanoseconds())
		until = &p.until
	}
	n, _, code := syscall.RawSyscall6(pwait2, uintptr(p.poll), uintptr(unsafe.Pointer(&events[0])), //nolint:gosec // as the system call wants it
		uintptr(len(events)), uintptr(unsafe.Pointer(until)), 0, 0)
	switch code {
	case 0:
		return int(n), nil
	case syscall.EINTR:
		return 0, nil
	default:
		return 0, fmt.Errorf("epoll_pwait2: %w", code)
	}
}

// deliver writes what is due.
func (p *Proxy) deliver() {
	for now := p.now(); !p.queue.empty() && p.queue.list[p.queue.head].due <= now; {
		one := p.queue.pop()
		if len(one.data) == 0 {
			one.to.finish(p)
		} else {
			one.to.write(p, one.data)
		}
		p.queue.recycle(one)
	}
}

// accept connects a new client with the server. A server that refuses ends the client's
// connection.
func (p *Proxy) accept() {
	fd, _, err := syscall.Accept4(p.listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
	if err != nil {
		return
	}
	other, err := socket(0)
	if err == nil {
		err = syscall.Connect(other, &p.server)
	}
	if err != nil {
		_ = syscall.Close(other)
		_ = syscall.Close(fd)
		return
	}
	_ = syscall.SetNonblock(other, true)
	client, server := &end{fd: fd}, &end{fd: other}
	client.peer, server.peer = server, client
	for _, e := range []*end{client, server} {
		_ = syscall.SetsockoptInt(e.fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		p.ends[int32(e.fd)] = e //nolint:gosec // a number of a file is small
		e.watch(p)
	}
}

func (p *Proxy) serve(event syscall.EpollEvent) {
	e := p.ends[event.Fd]
	if e == nil { // closed by an event before this one
		return
	}
	if event.Events&syscall.EPOLLOUT != 0 {
		e.write(p, nil)
	}
	if event.Events&(syscall.EPOLLIN|syscall.EPOLLHUP|syscall.EPOLLERR) != 0 && !e.dead {
		e.read(p)
	}
}

func (p *Proxy) register(operation, fd int, events uint32) error {
	return syscall.EpollCtl(p.poll, operation, fd, &syscall.EpollEvent{Events: events, Fd: int32(fd)}) //nolint:gosec // as above
}
