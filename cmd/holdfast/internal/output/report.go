package output

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// Reporter writes what people are to read, to standard error: standard output
// belongs to the command. With HOLDFAST_LOG_FORMAT=json each message is a line
// of JSON.
type Reporter struct {
	w       io.Writer
	json    *slog.Logger // nil: plain text
	verbose bool
	said    sync.Map // the messages of Once

	mu    sync.Mutex // for w
	drawn bool       // the terminal's last line is one that is to be erased
}

// LevelNotice is that of messages that are no warnings.
const LevelNotice = slog.LevelInfo

// EraseLine goes to the beginning of a terminal's line and erases it.
const EraseLine = "\r\x1b[K"

// NewReporter returns a reporter that writes to the standard error of env; details only if
// verbose.
func NewReporter(env Environment, verbose bool) *Reporter {
	r := &Reporter{w: env.Stderr, verbose: verbose}
	if env.JSONMessages() {
		r.json = AuditLogger(env)
	}
	return r
}

// Silent returns a reporter for what was reported before.
func Silent() *Reporter { return NewReporter(Environment{Stderr: io.Discard}, false) }

// Failure reports why the program does not do what it was asked to.
func (r *Reporter) Failure(err error) { r.Line(slog.LevelError, err.Error()) }

// Warn reports what the user should know although it went well.
func (r *Reporter) Warn(format string, args ...any) {
	r.Line(slog.LevelWarn, fmt.Sprintf(format, args...))
}

// Once reports what need not be repeated when the same is tried again.
func (r *Reporter) Once(level slog.Level, message string) {
	if _, said := r.said.LoadOrStore(message, true); !said {
		r.Line(level, message)
	}
}

// Exposed warns of a file that others can read or write; trouble says so, if it is not "".
func (r *Reporter) Exposed(trouble string) {
	if trouble != "" {
		r.Once(slog.LevelWarn, trouble)
	}
}

// Detail reports what is of interest with -v.
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

// Write writes whole lines, in place of the one that Draw has left.
func (r *Reporter) Write(lines []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drawn {
		lines = append([]byte(EraseLine), lines...)
	}
	r.drawn = false
	return r.w.Write(lines)
}

// Draw shows text on the terminal's last line, in place of what it showed there
// before.
func (r *Reporter) Draw(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drawn = true
	fmt.Fprint(r.w, EraseLine+text)
}

// Erase removes what Draw has left.
func (r *Reporter) Erase() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drawn {
		fmt.Fprint(r.w, EraseLine)
	}
	r.drawn = false
}

// LibraryLogger returns the logger of the library: nil, which is silent, unless
// the user asked for more. What ends a command is reported without it.
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

// AuditLogger returns the logger of what is always written down, such as who forced what.
func AuditLogger(env Environment) *slog.Logger { return loggerTo(env.Stderr, env, slog.LevelInfo) }

func loggerTo(w io.Writer, env Environment, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if env.JSONMessages() {
		return slog.New(slog.NewJSONHandler(PrintableJSON{w}, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
