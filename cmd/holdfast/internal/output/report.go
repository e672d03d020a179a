package output

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// Reporter writes messages for people to standard error, because the results of the command
// are on standard output. With HOLDFAST_LOG_FORMAT=json each message is a line of JSON.
type Reporter struct {
	w       io.Writer
	json    *slog.Logger // nil if messages are plain text
	verbose bool
	said    sync.Map // the messages that Once has reported

	mu    sync.Mutex // guards w and drawn
	drawn bool       // Draw has written the terminal's last line, which must be erased
}

// LevelNotice is the level of messages that are not warnings.
const LevelNotice = slog.LevelInfo

// EraseLine moves the cursor of a terminal to the beginning of its line and erases the line.
const EraseLine = "\r\x1b[K"

// NewReporter returns a Reporter that writes to the standard error of env. It writes details
// only if verbose is true.
func NewReporter(env Environment, verbose bool) *Reporter {
	r := &Reporter{w: env.Stderr, verbose: verbose}
	if env.JSONMessages() {
		r.json = AuditLogger(env)
	}
	return r
}

// Silent returns a Reporter that writes nothing.
func Silent() *Reporter { return NewReporter(Environment{Stderr: io.Discard}, false) }

// Failure reports the error that ends the program.
func (r *Reporter) Failure(err error) { r.Line(slog.LevelError, err.Error()) }

// Warn reports a problem that does not end the command.
func (r *Reporter) Warn(format string, args ...any) {
	r.Line(slog.LevelWarn, fmt.Sprintf(format, args...))
}

// Once reports a message. It ignores further calls with the same message.
func (r *Reporter) Once(level slog.Level, message string) {
	if _, said := r.said.LoadOrStore(message, true); !said {
		r.Line(level, message)
	}
}

// Waiting reports that the command waits for the content of a file.
func (r *Reporter) Waiting(file string) { r.Line(LevelNotice, "waiting for "+file) }

// Exposed reports a warning about a file that other users can read or write. If `trouble` is
// "", it reports nothing.
func (r *Reporter) Exposed(trouble string) {
	if trouble != "" {
		r.Once(slog.LevelWarn, trouble)
	}
}

// Detail reports a message only with --verbose.
func (r *Reporter) Detail(format string, args ...any) {
	if r.verbose {
		r.Line(slog.LevelInfo, fmt.Sprintf(format, args...))
	}
}

// Line writes a message.
func (r *Reporter) Line(level slog.Level, message string) {
	if r.json != nil {
		r.json.Log(context.Background(), level, message)
		return
	}
	fmt.Fprintf(r, "holdfast: %s\n", message)
}

// Write writes whole lines. They replace the line that Draw has written.
func (r *Reporter) Write(lines []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drawn {
		lines = append([]byte(EraseLine), lines...)
	}
	r.drawn = false
	return r.w.Write(lines)
}

// Draw shows a text on the terminal's last line. It replaces the text that the last Draw has
// shown.
func (r *Reporter) Draw(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drawn = true
	fmt.Fprint(r.w, EraseLine+text)
}

// Erase erases the line that Draw has written.
func (r *Reporter) Erase() { _, _ = r.Write(nil) }

// LibraryLogger returns the logger of the library. If the user did not ask for a log, the
// logger is nil, which means no log. Errors that end a command are reported in any case.
func (r *Reporter) LibraryLogger(env Environment) (*slog.Logger, error) {
	level := slog.LevelInfo
	text, set := env.Lookup("HOLDFAST_LOG_LEVEL")
	if set {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return nil, UsageError("HOLDFAST_LOG_LEVEL=%q: use debug, info, warn or error", text)
		}
	}
	if format, set := env.Lookup("HOLDFAST_LOG_FORMAT"); set && format != "json" && format != "text" {
		return nil, UsageError("HOLDFAST_LOG_FORMAT=%q: use text or json", format)
	}
	if !set && !r.verbose {
		return nil, nil
	}
	return loggerTo(r, env, level), nil
}

// AuditLogger returns the logger of events that are always logged, such as forced unlocks.
func AuditLogger(env Environment) *slog.Logger { return loggerTo(env.Stderr, env, slog.LevelInfo) }

func loggerTo(w io.Writer, env Environment, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if env.JSONMessages() {
		return slog.New(slog.NewJSONHandler(PrintableJSON{w}, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
