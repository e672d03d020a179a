package redishold

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// serverError is a server's answer, sorted by what it means for a claim.
type serverError struct {
	does   string // `redis refuses "stock:42"`
	cause  *ReplyError
	advice string // what to do about it; "" if there is nothing to say
	kinds  []error
}

// Error quotes the server and says what to do.
func (e *serverError) Error() string {
	text := e.does + ": " + wordsOf(e.cause.Text)
	if e.advice != "" {
		text += ": " + e.advice
	}
	return text
}

// Unwrap returns what the answer means, and the answer itself.
func (e *serverError) Unwrap() []error { return append([]error{e.cause}, e.kinds...) }

// classify turns an error of a Call for p into one that the core understands. An
// error of the connection passes through.
func (b *Backend) classify(p place, err error) error {
	var reply *ReplyError
	if !errors.As(err, &reply) {
		return err
	}
	e := &serverError{does: fmt.Sprintf("redis refuses %q", p.name), cause: reply}
	switch meaningOf(reply.Text) {
	case meansLater:
		e.kinds = []error{driver.ErrNotExecuted}
	case meansNever:
		e.kinds = []error{driver.ErrRefused, driver.ErrNotExecuted}
	case meansNoRight:
		e.kinds = []error{driver.ErrRefused, driver.ErrNotExecuted}
		e.advice = "grant the user " + b.grants(p, p.channel, "", reply.Text)
	case meansNoRightInside:
		e.kinds = []error{driver.ErrRefused}
		e.advice = "grant the user " + b.grants(p, p.channel, "", reply.Text)
	case meansNoDatabase:
		e.kinds = []error{driver.ErrRefused, driver.ErrNotExecuted}
		e.advice = databaseAdvice
	case meansWrongType:
		e.does = fmt.Sprintf("redis key %q is no lock", p.lock)
		e.kinds = []error{driver.ErrMismatch}
	default: // also where there is no room
		e.kinds = []error{driver.ErrRefused}
	}
	return e
}

// ungranted is the error for a user who lacks rights, before anything was written.
func ungranted(does string, cause *ReplyError, rules ...string) *serverError {
	return &serverError{
		does:   does,
		cause:  cause,
		advice: "nothing was written; grant it with: ACL SETUSER <user> " + strings.Join(rules, " "),
		kinds:  []error{driver.ErrRefused, driver.ErrNotExecuted},
	}
}

// classifyLogin is classify for an error that came up before the server knew what
// it was asked for.
func classifyLogin(err error) error {
	var reply *ReplyError
	if !errors.As(err, &reply) {
		return notTried(err)
	}
	e := &serverError{does: "redis refuses this client", cause: reply, kinds: []error{driver.ErrNotExecuted}}
	switch meaningOf(reply.Text) {
	case meansLater:
		return e
	case meansNever:
		e.advice = "check the user and the password"
	case meansNoDatabase:
		e.advice = databaseAdvice
	}
	e.kinds = append(e.kinds, driver.ErrRefused)
	return e
}

const databaseAdvice = "choose a database that the servers have; in a cluster there is only 0, before Valkey 9 and its setting cluster-databases"

// meaning is what a server's error says about the call that it answers.
type meaning int

const (
	meansUnknown       meaning = iota // anything else: refused, perhaps half-way
	meansLater                        // nothing was done; try again
	meansNever                        // nothing was done; trying again is no use
	meansNoRight                      // as meansNever: the user lacks a right
	meansNoRightInside                // a command inside the script lacked it; those before it were run
	meansNoDatabase                   // as meansNever: the client's connections are for a database that is not there
	meansNoRoom                       // the server takes no writes; those that need no memory were run
	meansWrongType                    // the key holds something else
)

// meaningOf sorts the text of a server's error.
func meaningOf(text string) meaning {
	// Inside a script a missing right is "ERR The user executing the script
	// can't run this command", and from Redis 7.2 "ERR ACL failure in script".
	// Redis 6.2 says NOPERM there too, and by then the script has begun.
	if strings.Contains(text, "user executing the script can't") || strings.Contains(text, "ACL failure in script") {
		return meansNoRightInside
	}
	switch {
	case strings.Contains(text, "max number of clients reached"):
		return meansLater
	case strings.Contains(text, "SELECT is not allowed in cluster mode"), strings.Contains(text, "DB index is out of range"):
		return meansNoDatabase // to the SELECT that begins a connection: no script has one
	}
	switch codeOf(text) {
	case "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MOVED", "ASK", "NOSCRIPT":
		return meansLater
	case "NOAUTH", "WRONGPASS", "CROSSSLOT":
		return meansNever
	case "NOPERM":
		return meansNoRight
	case "OOM", "MISCONF":
		return meansNoRoom
	case "WRONGTYPE":
		return meansWrongType
	default:
		return meansUnknown
	}
}

// codeOf returns the code that a server's error begins with. Up to Redis 6.2 an
// error inside a script is "ERR Error running script (…): …: -CODE words", and
// then that inner code counts. Some clients cut off "ERR".
func codeOf(text string) string {
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

// wordsOf returns a server's error from its code on, without what servers up to
// Redis 6.2 put before the error of a script.
func wordsOf(text string) string {
	return text[max(0, strings.Index(text, codeOf(text))):]
}

// notBegun adds to an error of acquire that nothing was done, where the order of
// its writes makes that certain: a server without room refuses the first one.
func notBegun(err error) error {
	var e *serverError
	if errors.As(err, &e) && meaningOf(e.cause.Text) == meansNoRoom {
		e.kinds = append(e.kinds, driver.ErrNotExecuted)
	}
	return err
}

// notTried says of an error that it came up before the claim was sent.
func notTried(err error) error {
	if errors.Is(err, driver.ErrNotExecuted) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrNotExecuted, err)
}

// refused makes an error of the engine's own, before anything was sent.
func refused(format string, args ...any) error {
	return &refusal{fmt.Errorf(format, args...)}
}

// refusal is an error for which nothing was sent and nothing would help.
type refusal struct{ error }

// Unwrap returns the reason, and what it means for a claim.
func (r *refusal) Unwrap() []error {
	return []error{r.error, driver.ErrRefused, driver.ErrNotExecuted}
}

// cutOff is the end of a claim whose client was closed.
type cutOff struct{ error }

// Unwrap returns what it means for the claim, and the error of the client.
func (e *cutOff) Unwrap() []error {
	return []error{&driver.GoneError{Reason: driver.Closed, Detail: e.Error()}, e.error}
}

// grants returns the ACL rules that would have made the server accept command
// (if it is known), which it refused with text. If that was a message, it was to
// channel.
func (b *Backend) grants(p place, channel, command, text string) string {
	quoted := regexp.MustCompile(`'([a-z|]+)' command`).FindStringSubmatch(text)
	switch {
	case quoted != nil:
		return "+" + quoted[1]
	case strings.Contains(text, "channel"):
		return "&" + b.layout.channels(channel) + "*"
	case strings.Contains(text, "key"):
		return "~" + p.lock + "* ~" + b.layout.prefix + "holdfast:*"
	case command != "":
		return "+" + strings.ToLower(command)
	default:
		return "all commands of the scripts: " + allCommands
	}
}

// allCommands are the commands that a user of the engine needs, as ACL rules.
const allCommands = "+eval +evalsha +subscribe +unsubscribe +publish +spublish " +
	"+exists +del +pexpire +pttl +get +set +hget +hmget +hset +hexists +hdel +hscan +hlen +hkeys +hgetall +time +incrby " +
	"+lindex +llen +lpop +lpos +lrange +lrem +rpush +zadd +zcard +zcount +zmscore +zrange +zrangebyscore +zrem +zremrangebyscore +zscore"
