package redistest

import (
	"fmt"
	"strconv"
	"strings"
)

// AwaitCommand returns when the server has executed a command that match accepts, for
// a client or a script, since the call began. args are as MONITOR shows them: the name
// as the client spelled it, then the arguments. After 5 s without any command it fails
// the test.
func (a Admin) AwaitCommand(what string, match func(args []string) bool) {
	a.helper()
	c := a.mustDial()
	defer c.close()
	if err, failed := c.do("MONITOR").(error); failed {
		a.fail(err)
	}
	for {
		raw, err := c.resp.Read()
		if err != nil {
			a.fail(fmt.Errorf("%s: %w", what, err))
		}
		if match(commandOf(raw)) {
			return
		}
	}
}

// commandOf reads a line of MONITOR; it returns nil where it is none:
//
//	+1790000000.123456 [0 127.0.0.1:40000] "EVALSHA" "…" "1" "stock"
func commandOf(line string) (args []string) {
	_, rest, _ := strings.Cut(strings.TrimSpace(line), "] ")
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return nil
		}
		args = append(args, arg)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	return args
}
