// Package delay is a TCP proxy that delivers every byte a fixed time after its arrival, as a
// network of that delay does. It keeps the order, and one process serves any number of
// connections. It exists on Linux only.
//
// The sleeps of Go are too coarse for 0.15 ms: where a program has nothing else to do, they
// take a millisecond or more. So one thread waits for sockets and for the next delivery with
// epoll_pwait2, whose timeout has nanoseconds.
package delay

import "time"

// window is how many bytes of one direction of a connection may be on their way. It is a
// thousand times more than a lock needs, and limits the memory if a side does not read.
const window = 1 << 20

// parcel is what was read at once, or the end of a stream if data is empty.
type parcel struct {
	due  time.Duration // on the clock of the proxy
	to   *end
	data []byte
}

// parcels is a queue. All delays are the same, so the order of arrival is that of delivery.
type parcels struct {
	list []parcel
	head int
	free [][]byte // memory of parcels that were delivered
}

func (q *parcels) empty() bool { return q.head == len(q.list) }

func (q *parcels) push(due time.Duration, to *end, data []byte) {
	p := parcel{due: due, to: to}
	if n := len(q.free); n > 0 && len(data) > 0 {
		p.data, q.free = q.free[n-1][:0], q.free[:n-1]
	}
	p.data = append(p.data, data...)
	if q.head > 1024 && 2*q.head > len(q.list) { // more than half is delivered
		q.list, q.head = q.list[:copy(q.list, q.list[q.head:])], 0
	}
	q.list = append(q.list, p)
}

func (q *parcels) pop() parcel {
	p := q.list[q.head]
	q.list[q.head] = parcel{}
	q.head++
	if q.empty() {
		q.list, q.head = q.list[:0], 0
	}
	return p
}

// recycle keeps the memory of a parcel, if it is not large.
func (q *parcels) recycle(p parcel) {
	if cap(p.data) > 0 && cap(p.data) <= 64<<10 && len(q.free) < 4096 {
		q.free = append(q.free, p.data)
	}
}
