package cli

import "unsafe"

// blot overwrites part of an argument in the memory that the kernel shows in /proc. The
// strings of os.Args are in that memory, and the process may write to it.
func blot(part string) {
	if part == "" {
		return
	}
	memory := unsafe.Slice(unsafe.StringData(part), len(part)) //nolint:gosec // the stack of the process, not a constant
	for i := range memory {
		memory[i] = 'x'
	}
}
