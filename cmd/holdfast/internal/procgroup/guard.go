package procgroup

// guardArg is the hidden first argument that makes the program a guard.
const guardArg = "__guard"

// IsGuard reports whether a program with these arguments, its own name not
// among them, was started to be a guard.
func IsGuard(args []string) bool { return len(args) > 0 && args[0] == guardArg }
