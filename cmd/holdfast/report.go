package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// reporter writes what people are to read, to standard error: standard output
// belongs to the command. With HOLDFAST_LOG_FORMAT=json each message is a line
// of JSON.
type reporter struct {
	w       io.Writer
	json    *slog.Logger // nil: plain text
	verbose bool
	said    sync.Map // the messages of once

	mu    sync.Mutex // for w
	drawn bool       // the terminal's last line is one that is to be erased
}

// levelNotice is that of messages that are no warnings.
const levelNotice = slog.LevelInfo

// eraseLine goes to the beginning of a terminal's line and erases it.
const eraseLine = "\r\x1b[K"

func newReporter(env environment, verbose bool) *reporter {
	r := &reporter{w: env.stderr, verbose: verbose}
	if format, _ := env.lookup("HOLDFAST_LOG_FORMAT"); format == "json" {
		r.json = slog.New(slog.NewJSONHandler(printableJSON{env.stderr}, nil))
	}
	return r
}

// silent returns a reporter for what was reported before.
func silent() *reporter { return newReporter(environment{stderr: io.Discard}, false) }

// failure reports why the program does not do what it was asked to.
func (r *reporter) failure(err error) { r.line(slog.LevelError, err.Error()) }

// warn reports what the user should know although it went well.
func (r *reporter) warn(format string, args ...any) {
	r.line(slog.LevelWarn, fmt.Sprintf(format, args...))
}

// once reports what need not be repeated when the same is tried again.
func (r *reporter) once(level slog.Level, message string) {
	if _, said := r.said.LoadOrStore(message, true); !said {
		r.line(level, message)
	}
}

// exposed warns of a file that others can read or write; trouble says so, if it is not "".
func (r *reporter) exposed(trouble string) {
	if trouble != "" {
		r.once(slog.LevelWarn, trouble)
	}
}

// detail reports what is of interest with -v.
func (r *reporter) detail(format string, args ...any) {
	if r.verbose {
		r.line(slog.LevelInfo, fmt.Sprintf(format, args...))
	}
}

func (r *reporter) line(level slog.Level, message string) {
	if r.json != nil {
		r.json.Log(context.Background(), level, message)
		return
	}
	fmt.Fprintf(r, "holdfast: %s\n", message)
}

// Write writes whole lines, in place of the one that draw has left.
func (r *reporter) Write(lines []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drawn {
		lines = append([]byte(eraseLine), lines...)
	}
	r.drawn = false
	return r.w.Write(lines)
}

// draw shows text on the terminal's last line, in place of what it showed there
// before.
func (r *reporter) draw(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drawn = true
	fmt.Fprint(r.w, eraseLine+text)
}

// erase removes what draw has left.
func (r *reporter) erase() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drawn {
		fmt.Fprint(r.w, eraseLine)
	}
	r.drawn = false
}

// libraryLogger returns the logger of the library: nil, which is silent, unless
// the user asked for more. What ends a command is reported without it.
func libraryLogger(env environment, report *reporter) (*slog.Logger, error) {
	level := slog.LevelInfo
	text, set := env.lookup("HOLDFAST_LOG_LEVEL")
	if set {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return nil, usageError("HOLDFAST_LOG_LEVEL=%q: use debug, info, warn or error", text)
		}
	}
	var handler slog.Handler
	options := &slog.HandlerOptions{Level: level}
	switch format, _ := env.lookup("HOLDFAST_LOG_FORMAT"); format {
	case "json":
		handler = slog.NewJSONHandler(printableJSON{report}, options)
	case "", "text":
		handler = slog.NewTextHandler(report, options)
	default:
		return nil, usageError("HOLDFAST_LOG_FORMAT=%q: use text or json", format)
	}
	if !set && !report.verbose {
		return nil, nil
	}
	return slog.New(handler), nil
}
