package stack

import (
	"runtime/debug"
	"testing"
	"testing/synctest"
	"unsafe"
)

// address returns the address of a variable on the stack. It differs when the runtime has moved
// the stack.
func address(v *byte) uintptr { return uintptr(unsafe.Pointer(v)) }

// After Grow, the runtime need not move the stack for a call.
func TestGrow(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection may make stacks smaller
	for _, grows := range []bool{false, true} {
		moved := false
		synctest.Test(t, func(*testing.T) { // in a goroutine with a new stack
			var v byte
			if grows {
				Grow()
			}
			before := address(&v)
			call(room / 2)
			moved = address(&v) != before
		})
		if moved == grows {
			t.Errorf("Grow was called: %v; the runtime moved the stack: %v", grows, moved)
		}
	}
}

// call needs at least so many bytes of stack.
func call(bytes int) int {
	var frame [256]byte
	frame[bytes%len(frame)] = 1
	if bytes <= len(frame) {
		return int(frame[0])
	}
	return call(bytes-len(frame)) + int(frame[1])
}
