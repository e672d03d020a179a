package layout

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Classify turns an error of a Call for p into one that the core understands. An
// error of the connection passes through.
func (l *Layout) Classify(p Place, err error) error {
	var reply *wire.ReplyError
	if !errors.As(err, &reply) {
		return err
	}
	e := wire.Classify(fmt.Sprintf("redis refuses %q", p.Name), reply)
	if BadCounter(reply.Text) {
		e.Advice = fmt.Sprintf("somebody has changed that key: delete %q, and tokens go on from the clock of the server, above all before; where somebody has stored a larger token, delete that too", p.Counter)
		return e
	}
	switch wire.MeaningOf(reply.Text) {
	case wire.MeansNoRight, wire.MeansNoRightInside:
		e.Advice = "grant the user " + l.Grants(p, p.Channel, "", reply.Text)
	case wire.MeansNoCommand:
		e.Advice = wire.NoCommand
	case wire.MeansWrongType:
		e.Does = fmt.Sprintf("redis key %q is in use for something else, another kind of lock or data", p.Lock)
	}
	return e
}

// BadCounter reports that a script has refused because of what stands in the counter of
// fencing tokens: see draw.lua.
func BadCounter(text string) bool { return strings.Contains(text, "token counter ") }

// Grants returns the ACL rules that would have made the server accept command
// (if it is known), which it refused with text. If that was a message, it was to
// channel.
func (l *Layout) Grants(p Place, channel, command, text string) string {
	quoted := regexp.MustCompile(`'([a-z|]+)' command`).FindStringSubmatch(text)
	switch {
	case quoted != nil:
		return "+" + quoted[1]
	case strings.Contains(text, "channel"):
		return "&" + l.Channels(channel) + "*"
	case strings.Contains(text, "key"):
		return "~" + p.Lock + "* ~" + l.Prefix + "holdfast:*"
	case command != "":
		return "+" + strings.ToLower(command)
	default:
		return "all commands of the scripts: " + l.AllCommands()
	}
}
