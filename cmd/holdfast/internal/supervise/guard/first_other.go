//go:build unix && !linux

package guard

// firstProcess returns false: only Linux has containers whose first process can be this program.
func firstProcess([]string) bool { return false }

func reapFor([]string) int { return 125 }
