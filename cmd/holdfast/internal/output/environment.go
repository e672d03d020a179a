package output

import (
	"context"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Environment has the streams and the environment variables of the process. Commands use it in
// place of package os, so that a test can choose all of these.
type Environment struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string // "NAME=value"
}

// Lookup returns the value of an environment variable, and whether it is set. An empty value
// counts as unset, as in the shell's ${NAME:-…}.
func (e Environment) Lookup(name string) (string, bool) {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if key, value, _ := strings.Cut(e.Environ[i], "="); key == name {
			return value, value != ""
		}
	}
	return "", false
}

// JSONMessages reports whether messages must be lines of JSON.
func (e Environment) JSONMessages() bool {
	format, _ := e.Lookup("HOLDFAST_LOG_FORMAT")
	return format == "json"
}

// LiveTerminal reports whether w is a terminal on which a line can be drawn again.
func (e Environment) LiveTerminal(w io.Writer) bool {
	kind, _ := e.Lookup("TERM")
	return kind != "dumb" && IsTerminal(w)
}

// IsTerminal reports whether a standard stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// UsualWidth is the width, in columns, of a text that is not written to a terminal.
const UsualWidth = 90

// WidthOf returns the number of columns of a terminal. It returns UsualWidth if w is not a
// terminal, or is too narrow for a text.
func WidthOf(w io.Writer) int {
	if file, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width >= 40 {
			return width
		}
	}
	return UsualWidth
}

// Typed calls the function `read`, which reads a line from a terminal, and returns its
// results. If ctx ends first, Typed returns the error of ctx. Nothing can end the call of
// `read` then: it goes on until a line is typed, or the program ends.
func Typed(ctx context.Context, read func() (string, error)) (string, error) {
	var text string
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		text, err = read()
	}()
	select {
	case <-done:
		return text, err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
