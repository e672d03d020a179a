package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// ServerError is an error reply of the server, with its meaning for a claim.
type ServerError struct {
	Does   string // what was refused, as a text, such as `redis refuses "stock:42"`
	Cause  *ReplyError
	Advice string // what the user can do; may be ""
	Kinds  []error
}

// Error returns a text with what was refused, the error reply, and the advice.
func (e *ServerError) Error() string {
	text := e.Cause.Text
	if MeaningOf(text) == MeansWrongType { // the rest of the text is about the script
		text = "WRONGTYPE"
	}
	text = e.Does + ": " + text[max(0, strings.Index(text, CodeOf(text))):] // up to Redis 6.2 the error of a script has more text before its code
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	return text
}

// Unwrap returns the error reply, and the errors of package driver that say what it means.
func (e *ServerError) Unwrap() []error { return append([]error{e.Cause}, e.Kinds...) }

// Ungranted returns the error for a call that the server refused before it wrote anything,
// because the user lacks permissions. The parameter `does` says what was refused, `words` is the
// error reply, and `rules` are the missing ACL rules.
func Ungranted(does, words string, rules ...string) *ServerError {
	return &ServerError{
		Does:   does,
		Cause:  &ReplyError{Text: words},
		Advice: "nothing was written; grant it with: ACL SETUSER <user> " + strings.Join(rules, " "),
		Kinds:  []error{driver.ErrDenied, driver.ErrNotExecuted},
	}
}

// NoCommand is the advice for MeansNoCommand.
const NoCommand = "the server, or a proxy in front of it, does not have that command"

// Lacking returns the error for a call that the server refused before it wrote anything, because
// the server does not have a command. The parameter `does` says what was refused, and `words` is
// the error reply.
func Lacking(does, words string) *ServerError {
	return &ServerError{
		Does: does, Cause: &ReplyError{Text: words}, Advice: "nothing was written; " + NoCommand,
		Kinds: []error{driver.ErrRefused, driver.ErrNotExecuted},
	}
}

// Classify returns a ServerError with the error reply and its meaning for a claim. The parameter
// `does` says what was refused.
func Classify(does string, reply *ReplyError) *ServerError {
	e := &ServerError{Does: does, Cause: reply}
	switch MeaningOf(reply.Text) {
	case MeansLater:
		e.Kinds = []error{driver.ErrNotExecuted}
	case MeansNoDatabase:
		e.Advice = "choose a database that the servers have; a cluster has only database 0, except Valkey 9 or newer with its setting cluster-databases"
		fallthrough
	case MeansNever:
		e.Kinds = []error{driver.ErrRefused, driver.ErrNotExecuted}
	case meansNoLogin, MeansNoRight:
		e.Kinds = []error{driver.ErrDenied, driver.ErrNotExecuted}
	case MeansNoRightInside:
		e.Kinds = []error{driver.ErrDenied}
	case meansNoRoom:
		e.Kinds = []error{driver.ErrUnable}
	case MeansWrongType:
		e.Kinds = []error{driver.ErrMismatch}
	default:
		e.Kinds = []error{driver.ErrRefused}
	}
	return e
}

// ClassifyLogin does the same as Classify, for an error that came before the first command for a
// lock was sent.
func ClassifyLogin(err error) error {
	var reply *ReplyError
	if !errors.As(err, &reply) {
		return NotTried(err)
	}
	e := Classify("redis refuses this client", reply)
	switch MeaningOf(reply.Text) {
	case MeansLater:
		return e
	case meansNoLogin:
		e.Advice = "check the user and the password"
		e.Kinds = []error{driver.ErrNotExecuted, driver.ErrDenied}
	case MeansUnknown: // such as "ERR invalid password", or a server in protected mode
		e.Kinds = []error{driver.ErrNotExecuted, driver.ErrDenied}
	default:
		e.Kinds = append(e.Kinds, driver.ErrNotExecuted, driver.ErrRefused)
	}
	return e
}

// meaning is what an error reply means for the call that got it.
type meaning int

// The meanings of error replies.
const (
	MeansUnknown       meaning = iota // any other error: the server may have done a part of the script
	MeansLater                        // nothing was done; a later try may succeed
	MeansNever                        // nothing was done; later tries will fail, too
	meansNoLogin                      // as MeansNever: the server does not accept the user or the password
	MeansNoRight                      // as MeansNever: the user has no permission
	MeansNoRightInside                // the user has no permission for a command inside the script; earlier commands of the script were executed
	MeansNoCommand                    // the server, or a proxy in front of it, does not have a command
	MeansNoDatabase                   // as MeansNever: the database of the connections does not exist
	meansNoRoom                       // the server is full; the commands that need no memory were executed
	MeansWrongType                    // the key has another type
)

// MeaningOf returns the meaning of the text of an error reply.
func MeaningOf(text string) meaning {
	// The reply for a missing permission inside a script is "ERR The user executing the script
	// can't run this command", and from Redis 7.2 "ERR ACL failure in script". Redis 6.2 has the
	// code NOPERM before the first of these texts, although the script has begun. So MeaningOf
	// looks for these texts before it looks at the code.
	if strings.Contains(text, "user executing the script can't") || strings.Contains(text, "ACL failure in script") {
		return MeansNoRightInside
	}
	switch {
	case strings.Contains(text, "max number of clients reached"):
		return MeansLater
	case strings.Contains(text, "SELECT is not allowed in cluster mode"), strings.Contains(text, "DB index is out of range"):
		return MeansNoDatabase // the reply to the SELECT of a new connection, because no script has a SELECT
	}
	switch CodeOf(text) {
	case "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MOVED", "ASK", "NOSCRIPT":
		return MeansLater
	case "NOAUTH", "WRONGPASS":
		return meansNoLogin
	case "CROSSSLOT":
		return MeansNever
	case "NOPERM":
		return MeansNoRight
	case "OOM", "MISCONF":
		return meansNoRoom
	case "WRONGTYPE":
		return MeansWrongType
	}
	if lacksCommand(strings.ToLower(text)) {
		return MeansNoCommand
	}
	return MeansUnknown
}

// lacksCommand reports whether an error reply, `text` in lower case, means that the server does
// not have a command. Redis has one text for a client and another one for a script, and proxies
// have other texts.
func lacksCommand(text string) bool {
	has := func(words string) bool { return strings.Contains(text, words) }
	return has("unknown command") || has("unknown redis command") || has("unsupported command") ||
		has("command") && has("not support") || has("command") && has("is not allowed") && !has("from script")
}

// CodeOf returns the code at the beginning of an error reply. Up to Redis 6.2, the error of a
// command inside a script is "ERR Error running script (…): …: -CODE words"; then CodeOf
// returns the inner code. Some clients cut off "ERR".
func CodeOf(text string) string {
	code, _, _ := strings.Cut(text, " ")
	if code != "ERR" && code == strings.ToUpper(code) || !strings.Contains(text, "script") {
		return code
	}
	for _, word := range strings.Fields(text) {
		switch word = strings.TrimPrefix(word, "-"); word {
		case "READONLY", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "OOM", "MISCONF", "WRONGTYPE":
			return word
		}
	}
	return code
}

// NotBegun adds driver.ErrNotExecuted to err, the error of a script, if the server is full. A
// full server refuses the first write of the script, so the script has written nothing.
func NotBegun(err error) error {
	var e *ServerError
	if errors.As(err, &e) && MeaningOf(e.Cause.Text) == meansNoRoom {
		e.Kinds = append(e.Kinds, driver.ErrNotExecuted)
	}
	return err
}

// NotTried returns err, and makes it match driver.ErrNotExecuted, because err came before the
// claim was sent.
func NotTried(err error) error {
	if errors.Is(err, driver.ErrNotExecuted) {
		return err
	}
	return unsent.Error(err)
}

// Refused returns the error of a claim that is refused before anything is sent to the server,
// because the server cannot keep it.
func Refused(format string, args ...any) error {
	return &refusal{fmt.Errorf(format, args...), driver.ErrInvalid}
}

// Unsuitable returns the error of a claim that is not sent, because the server is not suitable
// for locks.
func Unsuitable(format string, args ...any) error {
	return &refusal{fmt.Errorf(format, args...), driver.ErrRefused}
}

// refusal is the error that Refused and Unsuitable return.
type refusal struct {
	error
	kind error
}

// Unwrap returns the reason, and the errors of package driver that say what it means.
func (r *refusal) Unwrap() []error {
	return []error{r.error, r.kind, driver.ErrNotExecuted}
}

// ReplyText returns the text of an error reply. It returns "" if err is nil or another error.
func ReplyText(err error) string {
	if err == nil { // the usual case, for which reply must not be allocated
		return ""
	}
	var reply *ReplyError
	if !errors.As(err, &reply) {
		return ""
	}
	return reply.Text
}

// Means reports whether err is an error reply with one of the given meanings.
func Means(err error, any ...meaning) bool {
	text := ReplyText(err)
	return text != "" && slices.Contains(any, MeaningOf(text))
}
