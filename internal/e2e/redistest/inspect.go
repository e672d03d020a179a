package redistest

import (
	"slices"
	"strconv"
	"strings"
)

// Keys returns the names of all keys of database 0, sorted. Keys that come or go
// meanwhile may be missing.
func (a Admin) Keys() []string {
	a.helper()
	c := a.mustDial()
	defer c.close()
	return a.scan(c)
}

// KeysWithoutTTL returns the sorted names of all keys of database 0 that would
// stay forever (PTTL of −1), except those that one of allow accepts. Lock state
// without a time to live is a defect; counters are not.
func (a Admin) KeysWithoutTTL(allow ...func(key string) bool) []string {
	a.helper()
	c := a.mustDial()
	defer c.close()
	return slices.DeleteFunc(a.scan(c), func(key string) bool {
		if slices.ContainsFunc(allow, func(ok func(string) bool) bool { return ok(key) }) {
			return true
		}
		reply := c.do("PTTL", key)
		ttl, ok := reply.(int64)
		if !ok {
			a.unexpected([]string{"PTTL", key}, reply)
		}
		return ttl != -1
	})
}

// Passing accepts the keys beside locks that end by themselves, and that may outlive
// them for some seconds: registrations of clients, marks of owners that were given
// up or broken, results of calls, and the waiters.
func Passing(key string) bool {
	for _, prefix := range []string{"holdfast:client:", "holdfast:gone:", "holdfast:call:", "holdfast:waiting:"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// CommandStats returns how often the server executed each command since its
// start or CONFIG RESETSTAT, by lower-case name ("evalsha", "client|kill").
// Commands that scripts call are counted too, and so are those of Admin.
func (a Admin) CommandStats() map[string]int64 {
	a.helper()
	stats := make(map[string]int64)
	for line := range strings.Lines(a.String("INFO", "commandstats")) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			a.fail(err)
		}
		stats[name] = n
	}
	return stats
}

// Cost returns how many commands the server has executed since its start, those that
// scripts call included, how many connections it has, without that which asks, and how
// many of these subscribe or wait for an answer.
func (a Admin) Cost() (commands, connections, busy int) {
	a.helper()
	info := a.String("INFO", "everything")
	number := func(field string) int {
		n, _ := strconv.Atoi(infoField(info, field))
		return n
	}
	return number("total_commands_processed"), number("connected_clients") - 1, number("pubsub_clients") + number("blocked_clients")
}

// FlushScripts makes the server forget every script, so that EVALSHA answers
// NOSCRIPT.
func (a Admin) FlushScripts() {
	a.helper()
	a.String("SCRIPT", "FLUSH", "SYNC")
}

// KillPubSub closes every connection that subscribes to a channel, those of
// Listen included, and returns how many there were.
func (a Admin) KillPubSub() int {
	a.helper()
	return int(a.Int("CLIENT", "KILL", "TYPE", "pubsub"))
}

func (a Admin) mustDial() *conn {
	a.helper()
	c, err := a.dial()
	if err != nil {
		a.fail(err)
	}
	return c
}

func (a Admin) scan(c *conn) []string {
	a.helper()
	var keys []string
	for cursor := "0"; ; {
		reply := c.do("SCAN", cursor, "COUNT", "1000")
		page, ok := reply.([]any)
		if !ok || len(page) != 2 {
			a.unexpected([]string{"SCAN"}, reply)
		}
		cursor, _ = page[0].(string)
		found, _ := page[1].([]any)
		for _, key := range found {
			if key, ok := key.(string); ok {
				keys = append(keys, key)
			}
		}
		if cursor == "0" {
			slices.Sort(keys)
			return slices.Compact(keys) // SCAN may return a key twice
		}
	}
}

// infoField returns the value of one field of an INFO reply, or "".
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
