package cli

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
)

// duration is the value of a flag that is a time, with a unit: 30s or 1m30s. A number without a
// unit means seconds, as for flock and timeout. In a configuration file it would be a mistake: in
// the files of Java programs, from which people copy, it means milliseconds.
type duration time.Duration

// durationVar adds a flag that is a time, with the one letter `short` if that is not "".
func durationVar(f *pflag.FlagSet, p *time.Duration, name, short string, value time.Duration, usage string) {
	*p = value
	f.VarP((*duration)(p), name, short, usage)
}

// Set sets the value that a user has written.
func (d *duration) Set(text string) error {
	if last := len(text) - 1; last >= 0 && text[last] >= '0' && text[last] <= '9' {
		text += "s"
	}
	value, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("a time is expected, such as 30s or 1m30s")
	}
	*d = duration(value)
	return nil
}

// Type returns the name of the type in the help.
func (*duration) Type() string { return "duration" }

// String returns the value, and "0" for no time: so the help does not show it as a default.
func (d *duration) String() string {
	if *d == 0 {
		return "0"
	}
	return time.Duration(*d).String()
}
