package cli

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
)

// duration is the value of a flag that is a time.
type duration time.Duration

// durationVar adds a flag that is a time, with the one letter `short` if that is not "".
func durationVar(f *pflag.FlagSet, p *time.Duration, name, short string, value time.Duration, usage string) {
	*p = value
	f.VarP((*duration)(p), name, short, usage)
}

// Set sets the value that a user has written.
func (d *duration) Set(text string) error {
	value, err := config.ParseDuration(text)
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
