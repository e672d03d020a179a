package wire

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Reply takes the answer of a script apart from its front. Once something is not what
// it should be, neither it nor the lists in it are ok.
type Reply struct {
	list []any
	ok   *bool
}

// Read begins with value, which should be a list.
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

// Nested returns the next element, a list; anything else counts as empty.
func (r *Reply) Nested() Reply {
	list, _ := r.Take().([]any)
	return Reply{list, r.ok}
}

// AtList reports that the next element is a list.
func (r *Reply) AtList() bool {
	if !r.More() {
		return false
	}
	_, ok := r.list[0].([]any)
	return ok
}

// Texts returns the next element, a list of strings.
func (r *Reply) Texts() []string {
	found, ok := Texts(r.Take())
	*r.ok = *r.ok && ok
	return found
}

// More reports that there is something left, as long as all went well.
func (r *Reply) More() bool { return *r.ok && len(r.list) > 0 }

// Done reports that nothing is left, and all went well.
func (r *Reply) Done() bool { return *r.ok && len(r.list) == 0 }

// Texts reads a list of strings.
func Texts(value any) ([]string, bool) {
	list, ok := value.([]any)
	found := make([]string, len(list))
	for i, v := range list {
		text, isText := v.(string)
		found[i], ok = text, ok && isText
	}
	return found, ok
}

// Fields reads names and values, with a sign in each of them and something between them:
// those of INFO are lines "field:value".
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

// BadReply is the error for a reply that is not exactly what the script can
// answer: uncertain, nothing is granted.
func BadReply(script string, value any) error {
	return fmt.Errorf("redis: script %s answered %#v, which it cannot: is a proxy in between?", script, value)
}

// Remaining turns PTTL into a duration; -1, no TTL, stays negative. Redis counts
// further than a Duration does.
func Remaining(pttl int64) time.Duration {
	if pttl > int64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(pttl) * time.Millisecond
}
