package cli

import "unsafe"

// blot overwrites part of an argument where the kernel reads it for /proc. The
// strings of os.Args are that memory itself, which may be written.
func blot(part string) {
	if part == "" {
		return
	}
	memory := unsafe.Slice(unsafe.StringData(part), len(part)) //nolint:gosec // the stack of the process, not a constant
	for i := range memory {
		memory[i] = 'x'
	}
}
