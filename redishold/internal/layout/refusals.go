package layout

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Classify returns err with its meaning for the core, if err is an error reply to a call for the
// lock with the keys k. It returns any other error unchanged.
func (l *Layout) Classify(k Keys, err error) error {
	var reply *wire.ReplyError
	if !errors.As(err, &reply) {
		return err
	}
	e := wire.Classify(fmt.Sprintf("redis refuses %q", k.Name), reply)
	if BadCounter(reply.Text) {
		e.Advice = fmt.Sprintf("somebody has changed that key: delete %q; new tokens come from the clock of the server and are larger than all earlier tokens; if a resource has stored a larger token, delete it there, too", k.Counter)
		return e
	}
	switch wire.MeaningOf(reply.Text) {
	case wire.MeansNoRight, wire.MeansNoRightInside:
		e.Advice = "grant the user " + l.Grants(k, k.Channel, "", reply.Text)
	case wire.MeansNoCommand:
		e.Advice = wire.NoCommand
	case wire.MeansWrongType:
		e.Does = fmt.Sprintf("redis key %q is in use for something else", k.Lock)
		e.Advice = l.mismatch()
	}
	return e
}

// mismatch says what a key may have that no lock of this layout has, and what to do.
func (l *Layout) mismatch() string {
	if l.Name == "" {
		return "it is no lock of this kind in Redisson's layout; use the kind of the other programs, or redishold.Plain if they lock with SET NX, or choose another name"
	}
	return fmt.Sprintf("it is no lock of the layout %s; use the layout of the other programs, or choose another name", l.Name)
}

// BadCounter reports whether `text` is the error of a script that failed because the counter of
// fencing tokens has a bad value, see draw.lua.
func BadCounter(text string) bool { return strings.Contains(text, "token counter ") }

// Grants returns the ACL rules with which the server would accept a command that it has
// refused. The parameter `text` is the error reply. The parameter `command` is the name of the
// command, or "" if it is unknown. The parameter `channel` is the channel to which the server
// may have refused to publish.
func (l *Layout) Grants(k Keys, channel, command, text string) string {
	quoted := regexp.MustCompile(`'([a-z|]+)' command`).FindStringSubmatch(text)
	switch {
	case quoted != nil:
		return "+" + quoted[1]
	case strings.Contains(text, "channel"):
		return "&" + l.ChannelPrefix(channel) + "*"
	case strings.Contains(text, "key"):
		return "~" + k.Lock + "* ~" + l.Prefix + "holdfast:*"
	case command != "":
		return "+" + strings.ToLower(command)
	default:
		return "all commands of the scripts: " + l.AllCommands()
	}
}
