package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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

// Executed is a command that a server has executed.
type Executed struct {
	Inside bool     // a script has called it
	Args   []string // the name as its caller spelled it, then the arguments
}

// Record calls use, and returns what the server has executed meanwhile, in order. The commands
// of a script follow the call of that script.
func (a Admin) Record(use func()) (all []Executed) {
	a.helper()
	c := a.mustDial()
	if err, failed := c.do("MONITOR").(error); failed {
		c.close()
		a.fail(err)
	}
	_ = c.SetDeadline(time.Time{})
	const end = "end of the record"
	var failed error
	done := make(chan struct{})
	go func() { // reads while use runs, because the server drops a monitor that does not read
		defer close(done)
		for {
			raw, err := c.resp.Read()
			if err != nil {
				failed = err
				return
			}
			args := commandOf(raw)
			if len(args) == 2 && args[1] == end {
				return
			}
			if args != nil {
				all = append(all, Executed{strings.Contains(raw, " lua] "), args})
			}
		}
	}()
	defer func() {
		c.close()
		<-done
	}()
	use()
	if err, failed := a.Do("ECHO", end).(error); failed {
		a.fail(err)
	}
	select {
	case <-done:
	case <-time.After(replyLimit):
		failed = errors.New("no end of what MONITOR shows")
	}
	if failed != nil {
		a.fail(failed)
	}
	return all
}

// KeysOf returns the keys of a command, as the server finds them in its arguments.
func (a Admin) KeysOf(command ...string) []string {
	a.helper()
	if len(command) < 2 {
		return nil // the server asks for an argument
	}
	reply := a.Do(append([]string{"COMMAND", "GETKEYS"}, command...)...)
	if err, failed := reply.(error); failed && strings.Contains(err.Error(), "no key arguments") {
		return nil
	}
	list, ok := reply.([]any)
	if !ok {
		a.fail(fmt.Errorf("COMMAND GETKEYS of %q: %v", command, reply))
	}
	keys := make([]string, len(list))
	for i, key := range list {
		keys[i] = fmt.Sprint(key)
	}
	return keys
}

// Undeclared returns a text for each command of a script, in the result of Record, that has a key
// which is not among the KEYS of that script.
func (a Admin) Undeclared(all []Executed) (texts []string) {
	a.helper()
	var script, keys []string
	for _, e := range all {
		if !e.Inside {
			if script, keys = e.Args, nil; strings.HasPrefix(strings.ToUpper(e.Args[0]), "EVAL") {
				keys = a.KeysOf(e.Args...)
			}
			continue
		}
		for _, key := range a.KeysOf(e.Args...) {
			if text := fmt.Sprintf("%.60q with the keys %q runs %q", script[1], keys, e.Args); !slices.Contains(keys, key) && !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
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
