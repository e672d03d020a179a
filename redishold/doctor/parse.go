package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// parseInfo reads the lines "field:value" of INFO and CLUSTER INFO.
func parseInfo(text string) map[string]string { return wire.Fields(text, "\n", ":") }

// pairs reads an answer of names and values: a list of both in turn, or a map.
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

// text returns a string or a number as a string, anything else as "".
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

// number returns a number among fields.
func number(fields map[string]string, name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(fields[name], 10, 64)
	return n, err == nil
}

// numberIn returns a number of a list, written out or not; 0 if there is none.
func numberIn(list []any, at int) int64 {
	if at >= len(list) {
		return 0
	}
	n, _ := strconv.ParseInt(text(list[at]), 10, 64)
	return n
}

// slotMoves are the slots that a node says are on their way to or from it.
type slotMoves struct{ leaving, arriving int }

// parseMoves reads CLUSTER NODES: the node that answers shows in its own line of
// slots that move, as [93->-target] and [77-<-source].
func parseMoves(nodes string) slotMoves {
	var moves slotMoves
	for line := range strings.Lines(nodes) {
		if words := strings.Fields(line); len(words) > 8 && strings.Contains(words[2], "myself") {
			slots := strings.Join(words[8:], " ")
			moves.leaving += strings.Count(slots, "->-")
			moves.arriving += strings.Count(slots, "-<-")
		}
	}
	return moves
}

// slowest is the slowest command that the server remembers of the last hour. Of
// its arguments nothing is kept: they may be secrets.
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

// parseBufferLimit returns the limits for subscribers in the setting
// client-output-buffer-limit, in bytes; 0 is none.
func parseBufferLimit(value string) (hard, soft int64, ok bool) {
	_, limits, _ := strings.Cut(value, "pubsub ")
	n, _ := fmt.Sscanf(limits, "%d %d %d", &hard, &soft, new(int64))
	return hard, soft, n == 3
}

type release [3]int

// parseRelease reads "7.0.15"; what follows the numbers does not count.
func parseRelease(version string) (r release, ok bool) {
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &r[0], &r[1], &r[2])
	return r, n >= 2
}

// size is a number of bytes for people.
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

// short is a duration for people.
func short(d time.Duration) string {
	precision := 10 * time.Microsecond
	if d.Abs() >= time.Minute {
		precision = time.Second
	} else if d.Abs() >= time.Second {
		precision = 10 * time.Millisecond
	}
	return d.Round(precision).String()
}
