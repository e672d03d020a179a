package wire

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Reply reads the elements of a script's reply, from the first to the last. If an element is
// missing or has the wrong type, More and Done return false from then on, also for the nested
// lists of the Reply.
type Reply struct {
	list []any
	ok   *bool
}

// Read returns a Reply for value, which should be a list.
func Read(value any) Reply {
	ok := true
	list, _ := value.([]any)
	return Reply{list, &ok}
}

// Take returns the next element.
func (r *Reply) Take() any {
	if len(r.list) == 0 {
		*r.ok = false
		return nil
	}
	first := r.list[0]
	r.list = r.list[1:]
	return first
}

// Text returns the next element, a string.
func (r *Reply) Text() string { return next[string](r) }

// Number returns the next element, an integer.
func (r *Reply) Number() int64 { return next[int64](r) }

func next[T any](r *Reply) T {
	value, ok := r.Take().(T)
	*r.ok = *r.ok && ok
	return value
}

// Nested returns the next element, a list. An element of any other type counts as an empty list.
func (r *Reply) Nested() Reply {
	list, _ := r.Take().([]any)
	return Reply{list, r.ok}
}

// Texts returns the next element, a list of strings.
func (r *Reply) Texts() []string {
	found, ok := Texts(r.Take())
	*r.ok = *r.ok && ok
	return found
}

// More reports whether elements are left, and no element was missing or had the wrong type.
func (r *Reply) More() bool { return *r.ok && len(r.list) > 0 }

// Done reports whether no elements are left, and no element was missing or had the wrong type.
func (r *Reply) Done() bool { return *r.ok && len(r.list) == 0 }

// Texts returns the strings in a value that is a list of strings. For any other value it
// returns false.
func Texts(value any) ([]string, bool) {
	list, ok := value.([]any)
	found := make([]string, len(list))
	for i, v := range list {
		text, isText := v.(string)
		found[i], ok = text, ok && isText
	}
	return found, ok
}

// Fields returns the names and values in a text of pairs. The parameter `between` separates two
// pairs, and `sign` separates a name from its value: "\n" and ":" for INFO.
func Fields(text, between, sign string) map[string]string {
	fields := map[string]string{}
	for part := range strings.SplitSeq(text, between) {
		field, value, ok := strings.Cut(strings.TrimSuffix(part, "\r"), sign)
		if ok && !strings.HasPrefix(field, "#") {
			fields[field] = value
		}
	}
	return fields
}

// BadReply returns the error for a reply that the script cannot give. The outcome is unknown,
// and nothing counts as granted.
func BadReply(script string, value any) error {
	return fmt.Errorf("redis: script %s answered %#v, which is no answer of this script: maybe a proxy has changed the answer", script, value)
}

// Remaining returns a PTTL as a duration, at most the longest Duration. A PTTL of -1, for a key
// without a TTL, becomes a negative Duration.
func Remaining(pttl int64) time.Duration {
	if pttl > int64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(pttl) * time.Millisecond
}
