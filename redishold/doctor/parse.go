package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// parseInfo reads the lines "field:value" of INFO and CLUSTER INFO.
func parseInfo(text string) map[string]string { return parse(text, "\n", ":") }

// parseFields reads "name=value,name=value", as INFO tells of a replica.
func parseFields(text string) map[string]string { return parse(text, ",", "=") }

func parse(text, between, sign string) map[string]string {
	fields := map[string]string{}
	for part := range strings.SplitSeq(text, between) {
		field, value, ok := strings.Cut(strings.TrimSuffix(part, "\r"), sign)
		if ok && !strings.HasPrefix(field, "#") {
			fields[field] = value
		}
	}
	return fields
}

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

// parseMoves reads CLUSTER NODES: the node that answers tells in its own line of
// slots that move, as [93->-target] and [77-<-source].
func parseMoves(nodes string) slotMoves {
	var moves slotMoves
	for line := range strings.Lines(nodes) {
		words := strings.Fields(line)
		if len(words) < 8 || !strings.Contains(words[2], "myself") {
			continue
		}
		for _, word := range words[8:] {
			switch {
			case !strings.HasPrefix(word, "["):
			case strings.Contains(word, "->-"):
				moves.leaving++
			case strings.Contains(word, "-<-"):
				moves.arriving++
			}
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

// parseSlowLog reads SLOWLOG GET.
func parseSlowLog(answer any, now time.Time) slowest {
	entries, ok := answer.([]any)
	worst := slowest{known: ok}
	for _, entry := range entries {
		fields, _ := entry.([]any)
		if len(fields) < 4 {
			continue
		}
		ago := now.Sub(time.Unix(numberIn(fields, 1), 0))
		took := time.Duration(numberIn(fields, 2)) * time.Microsecond
		if ago > time.Hour || took <= worst.took {
			continue
		}
		words, _ := fields[3].([]any)
		worst.took, worst.ago, worst.command = took, max(0, ago), "?"
		if len(words) > 0 {
			worst.command = strings.ToUpper(text(words[0]))
		}
	}
	return worst
}

// parseBufferLimit returns the limits for subscribers in the setting
// client-output-buffer-limit, in bytes; 0 is none.
func parseBufferLimit(value string) (hard, soft int64, ok bool) {
	words := strings.Fields(value)
	for i := 0; i+3 < len(words); i += 4 {
		if words[i] != "pubsub" {
			continue
		}
		hard, err1 := strconv.ParseInt(words[i+1], 10, 64)
		soft, err2 := strconv.ParseInt(words[i+2], 10, 64)
		return hard, soft, err1 == nil && err2 == nil
	}
	return 0, 0, false
}

// release is a version taken apart.
type release [3]int

// parseRelease reads "7.0.15"; what follows the numbers does not count.
func parseRelease(version string) (release, bool) {
	var r release
	parts := strings.SplitN(version, ".", 3)
	for i, part := range parts {
		digits := part
		if end := strings.IndexFunc(part, func(c rune) bool { return c < '0' || c > '9' }); end >= 0 {
			digits = part[:end]
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return release{}, false
		}
		r[i] = n
	}
	return r, len(parts) >= 2
}

func (r release) before(major, minor int) bool {
	return r[0] < major || r[0] == major && r[1] < minor
}

// size is a number of bytes for people.
func size(bytes int64) string {
	const unit = 1024
	if bytes < unit {
		return fmt.Sprintf("%d B", bytes)
	}
	value, exp := float64(bytes)/unit, 0
	for value >= unit && exp < 4 {
		value, exp = value/unit, exp+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[exp])
}

// short is a duration for people.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute || d <= -time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second || d <= -time.Second:
		return d.Round(10 * time.Millisecond).String()
	default:
		return d.Round(10 * time.Microsecond).String()
	}
}
