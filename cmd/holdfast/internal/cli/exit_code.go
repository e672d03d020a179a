package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// exitCode is a flag for an exit status. A system keeps only eight bits of a status, so 256
// would mean success. Set refuses such values for all commands.
type exitCode struct {
	value *int
	least int
}

// addExitCode adds a flag for an exit status from least to 255. The parameter usual is its
// default.
func addExitCode(f *pflag.FlagSet, value *int, name, short string, usual, least int, usage string) {
	*value = usual
	f.VarP(&exitCode{value, least}, name, short, usage)
}

// String implements pflag.Value.
func (e *exitCode) String() string {
	if e.value == nil {
		return ""
	}
	return strconv.Itoa(*e.value)
}

// Type implements pflag.Value.
func (e *exitCode) Type() string { return "int" }

// Set implements pflag.Value.
func (e *exitCode) Set(text string) error {
	code, err := strconv.ParseInt(text, 0, 16) // base 0, as other numeric flags
	if err != nil || int(code) < e.least || code > 255 {
		return fmt.Errorf("it is no exit status for this; use %d to 255", e.least)
	}
	*e.value = int(code)
	return nil
}
