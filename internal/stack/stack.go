// Package stack saves the runtime work with the stacks of new goroutines.
package stack

// room is how many bytes of stack the client libraries need for a call.
const room = 8 << 10

// Grow makes the stack of a new goroutine large enough for a call of a client library, in one
// step. Otherwise the stack would grow several times during the call, and each time the runtime
// would copy all of its frames. That took a tenth of the processor time of a lock over go-redis
// with eight goroutines, and a fiftieth of a lock in etcd.
func Grow() { grow(false) }

// grow uses its array if the parameter `fill` is true, so that the compiler does not leave out
// the array. Nobody passes true: to fill the array would cost more than it saves.
//
//go:noinline
func grow(fill bool) (sum int) {
	if fill {
		var bytes [room]byte
		for i := range bytes {
			bytes[i] = byte(i + sum)
			sum += int(bytes[i/2])
		}
	}
	return sum
}
