package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// ServerError is a server's answer, sorted by what it means for a claim.
type ServerError struct {
	Does   string // `redis refuses "stock:42"`
	Cause  *ReplyError
	Advice string // what to do about it; "" if there is nothing to say
	Kinds  []error
}

// Error quotes the server and says what to do.
func (e *ServerError) Error() string {
	text := e.Cause.Text
	if MeaningOf(text) == MeansWrongType { // the rest is about the script
		text = "WRONGTYPE"
	}
	text = e.Does + ": " + text[max(0, strings.Index(text, CodeOf(text))):] // up to Redis 6.2 the error of a script has more before its code
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	return text
}

// Unwrap returns what the answer means, and the answer itself.
func (e *ServerError) Unwrap() []error { return append([]error{e.Cause}, e.Kinds...) }

// Ungranted is the error for a user who lacks rights, as the server put it, before
// anything was written.
func Ungranted(does, words string, rules ...string) *ServerError {
	return &ServerError{
		Does:   does,
		Cause:  &ReplyError{Text: words},
		Advice: "nothing was written; grant it with: ACL SETUSER <user> " + strings.Join(rules, " "),
		Kinds:  []error{driver.ErrRefused, driver.ErrNotExecuted},
	}
}

// NoCommand is what to do about MeansNoCommand.
const NoCommand = "the server, or a proxy in front of it, does not have that command"

// Lacking is the error for a server that lacks a command, before anything was written.
func Lacking(does, words string) *ServerError {
	return &ServerError{
		Does: does, Cause: &ReplyError{Text: words}, Advice: "nothing was written; " + NoCommand,
		Kinds: []error{driver.ErrRefused, driver.ErrNotExecuted},
	}
}

// Classify returns what a server's answer means for a claim, and whose refusal it is.
func Classify(does string, reply *ReplyError) *ServerError {
	e := &ServerError{Does: does, Cause: reply}
	switch MeaningOf(reply.Text) {
	case MeansLater:
		e.Kinds = []error{driver.ErrNotExecuted}
	case MeansNoDatabase:
		e.Advice = "choose a database that the servers have; in a cluster there is only 0, before Valkey 9 and its setting cluster-databases"
		fallthrough
	case MeansNever, MeansNoRight:
		e.Kinds = []error{driver.ErrRefused, driver.ErrNotExecuted}
	case MeansWrongType:
		e.Kinds = []error{driver.ErrMismatch}
	default: // also where there is no room
		e.Kinds = []error{driver.ErrRefused}
	}
	return e
}

// ClassifyLogin is Classify for an error that came up before the server knew what
// it was asked for.
func ClassifyLogin(err error) error {
	var reply *ReplyError
	if !errors.As(err, &reply) {
		return NotTried(err)
	}
	e := Classify("redis refuses this client", reply)
	switch MeaningOf(reply.Text) {
	case MeansLater:
		return e
	case MeansNever:
		e.Advice = "check the user and the password"
	}
	e.Kinds = []error{driver.ErrNotExecuted, driver.ErrRefused}
	return e
}

// meaning is what a server's error says about the call that it answers.
type meaning int

// What errors mean.
const (
	MeansUnknown       meaning = iota // anything else: refused, perhaps half-way
	MeansLater                        // nothing was done; try again
	MeansNever                        // nothing was done; trying again is no use
	MeansNoRight                      // as MeansNever: the user lacks a right
	MeansNoRightInside                // a command inside the script lacked it; those before it were run
	MeansNoCommand                    // the server, or a proxy before it, does not have a command
	MeansNoDatabase                   // as MeansNever: the client's connections are for a database that is not there
	meansNoRoom                       // the server takes no writes; those that need no memory were run
	MeansWrongType                    // the key holds something else
)

// MeaningOf sorts the text of a server's error.
func MeaningOf(text string) meaning {
	// Inside a script a missing right is "ERR The user executing the script
	// can't run this command", and from Redis 7.2 "ERR ACL failure in script".
	// Redis 6.2 says NOPERM there too, and by then the script has begun.
	if strings.Contains(text, "user executing the script can't") || strings.Contains(text, "ACL failure in script") {
		return MeansNoRightInside
	}
	switch {
	case strings.Contains(text, "max number of clients reached"):
		return MeansLater
	case strings.Contains(text, "SELECT is not allowed in cluster mode"), strings.Contains(text, "DB index is out of range"):
		return MeansNoDatabase // to the SELECT that begins a connection: no script has one
	}
	switch CodeOf(text) {
	case "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MOVED", "ASK", "NOSCRIPT":
		return MeansLater
	case "NOAUTH", "WRONGPASS", "CROSSSLOT":
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

// lacksCommand reports that text, in lower case, says that there is no such command. Redis
// says it in two ways, to a client and to a script, and proxies in others.
func lacksCommand(text string) bool {
	said := func(words string) bool { return strings.Contains(text, words) }
	return said("unknown command") || said("unknown redis command") || said("unsupported command") ||
		said("command") && said("not support") || said("command") && said("is not allowed") && !said("from script")
}

// CodeOf returns the code that a server's error begins with. Up to Redis 6.2 an
// error inside a script is "ERR Error running script (…): …: -CODE words", and
// then that inner code counts. Some clients cut off "ERR".
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

// NotBegun adds to an error of acquire that nothing was done, where the order of
// its writes makes that certain: a server without room refuses the first one.
func NotBegun(err error) error {
	var e *ServerError
	if errors.As(err, &e) && MeaningOf(e.Cause.Text) == meansNoRoom {
		e.Kinds = append(e.Kinds, driver.ErrNotExecuted)
	}
	return err
}

// NotTried says of an error that it came up before the claim was sent.
func NotTried(err error) error {
	if errors.Is(err, driver.ErrNotExecuted) {
		return err
	}
	return unsent.Error(err)
}

// Refused makes an error of the engine's own, before anything was sent.
func Refused(format string, args ...any) error {
	return &refusal{fmt.Errorf(format, args...)}
}

// refusal is an error for which nothing was sent and nothing would help.
type refusal struct{ error }

// Unwrap returns the reason, and what it means for a claim.
func (r *refusal) Unwrap() []error {
	return []error{r.error, driver.ErrRefused, driver.ErrNotExecuted}
}

// ReplyText returns what the server answered, "" for no error and for others.
func ReplyText(err error) string {
	if err == nil { // most are, and need no reply on the heap
		return ""
	}
	var reply *ReplyError
	if !errors.As(err, &reply) {
		return ""
	}
	return reply.Text
}

// Means reports that err is a server's answer with one of these meanings.
func Means(err error, any ...meaning) bool {
	text := ReplyText(err)
	return text != "" && slices.Contains(any, MeaningOf(text))
}
