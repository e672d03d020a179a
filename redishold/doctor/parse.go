package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// parseInfo returns the fields of INFO and CLUSTER INFO, with lines "field:value".
func parseInfo(text string) map[string]string { return wire.Fields(text, "\n", ":") }

// pairs returns the names and values in a reply: a map, or a list of alternating names and
// values.
func pairs(answer any) map[string]string {
	found := map[string]string{}
	switch answer := answer.(type) {
	case []any:
		for i := 0; i+1 < len(answer); i += 2 {
			found[text(answer[i])] = text(answer[i+1])
		}
	case map[string]any:
		for name, value := range answer {
			found[name] = text(value)
		}
	case map[any]any:
		for name, value := range answer {
			found[text(name)] = text(value)
		}
	}
	return found
}

// text returns a string or a number as a string, and "" for any other value.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	default:
		return ""
	}
}

// number returns the number in the field `name`. The result `ok` is false if that field has no
// number.
func number(fields map[string]string, name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(fields[name], 10, 64)
	return n, err == nil
}

// numberIn returns the number at the index `at` of a list. In the list, the number may be a
// string. The result is 0 if there is no number.
func numberIn(list []any, at int) int64 {
	if at >= len(list) {
		return 0
	}
	n, _ := strconv.ParseInt(text(list[at]), 10, 64)
	return n
}

// parseMigrating reads the reply of a node to CLUSTER NODES. It returns how many slots migrate
// from this node, and how many slots migrate to this node. The line about the node itself lists
// these slots, as [93->-target] and [77-<-source].
func parseMigrating(nodes string) (leaving, arriving int) {
	for line := range strings.Lines(nodes) {
		if words := strings.Fields(line); len(words) > 8 && strings.Contains(words[2], "myself") {
			slots := strings.Join(words[8:], " ")
			leaving += strings.Count(slots, "->-")
			arriving += strings.Count(slots, "-<-")
		}
	}
	return leaving, arriving
}

// slowest is the slowest command of the last hour in the slow log of the server. It does not
// have the arguments of the command, because they may be secrets.
type slowest struct {
	known   bool
	command string
	took    time.Duration
	ago     time.Duration
}

func parseSlowLog(answer any, now time.Time) slowest {
	entries, ok := answer.([]any)
	worst := slowest{known: ok}
	for _, entry := range entries {
		fields, _ := entry.([]any)
		ago := now.Sub(time.Unix(numberIn(fields, 1), 0))
		took := time.Duration(numberIn(fields, 2)) * time.Microsecond
		if len(fields) < 4 || ago > time.Hour || took <= worst.took {
			continue
		}
		worst.took, worst.ago, worst.command = took, max(0, ago), "?"
		if words, _ := fields[3].([]any); len(words) > 0 {
			worst.command = strings.ToUpper(text(words[0]))
		}
	}
	return worst
}

// parseBufferLimit returns the limits for subscribers in the setting client-output-buffer-limit,
// in bytes; 0 means no limit.
func parseBufferLimit(value string) (hard, soft int64, ok bool) {
	_, limits, _ := strings.Cut(value, "pubsub ")
	n, _ := fmt.Sscanf(limits, "%d %d %d", &hard, &soft, new(int64))
	return hard, soft, n == 3
}

type release [3]int

// parseRelease returns the numbers of a version such as "7.0.15", without the text after them.
func parseRelease(version string) (r release, ok bool) {
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &r[0], &r[1], &r[2])
	return r, n >= 2
}

// size returns a number of bytes as text with a unit.
func size(bytes int64) string {
	const unit = 1024
	if bytes < unit {
		return fmt.Sprintf("%d B", bytes)
	}
	value, exp := float64(bytes)/unit, 0
	for ; value >= unit && exp < 4; exp++ {
		value /= unit
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[exp])
}

// short returns the text of a duration, which it rounds first.
func short(d time.Duration) string {
	precision := 10 * time.Microsecond
	if d.Abs() >= time.Minute {
		precision = time.Second
	} else if d.Abs() >= time.Second {
		precision = 10 * time.Millisecond
	}
	return d.Round(precision).String()
}
