package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// exitCode is a flag whose value the program exits with. A system keeps eight bits
// of that: 256 would be success. So Set checks it, and no command can forget to.
type exitCode struct {
	value *int
	least int
}

// addExitCode adds a flag for a status to exit with, from least to 255.
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
	code, err := strconv.ParseInt(text, 0, 16) // as of any flag that is a number
	if err != nil || int(code) < e.least || code > 255 {
		return fmt.Errorf("it is no exit status for this; use %d to 255", e.least)
	}
	*e.value = int(code)
	return nil
}
