package faultproxy

import (
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2/proto"
)

// pairing knows which request the next reply of a connection belongs to.
//
// The exceptions to "in order" are push messages of RESP3, messages of a
// subscription under RESP2, which look like any other list, and subscriptions,
// which have one confirmation per channel.
type pairing struct {
	pending []*request

	channels map[string][]string // subscribed to, by "subscribe", "psubscribe" and "ssubscribe"
	lists    bool                // the server confirmed them as lists: RESP2
}

func (q *pairing) head() *request {
	if len(q.pending) == 0 {
		return nil
	}
	return q.pending[0]
}

func (q *pairing) pop() { q.pending = q.pending[1:] }

// pair returns the request that raw answers, and whether raw is the last of its
// answer. It returns nil for a message that nobody asked for.
func (q *pairing) pair(raw string) (req *request, last bool) {
	req = q.head()
	event, channel := q.event(raw)
	switch {
	case req != nil && event != "" && strings.EqualFold(event, req.cmd[0]):
		return req, q.confirm(req, event, channel)
	case raw[0] == '>', event != "", req == nil:
		return nil, false
	default:
		return req, true
	}
}

// confirm takes one confirmation of a subscription or of its end, and reports
// whether it is the last for req.
func (q *pairing) confirm(req *request, event, channel string) bool {
	kind := strings.Replace(event, "un", "", 1)
	if req.awaits == 0 {
		req.awaits = len(req.cmd) - 1
		if req.awaits == 0 { // UNSUBSCRIBE from all: one for each, or one that says there was none
			req.awaits = max(1, len(q.channels[kind]))
		}
	}
	req.awaits--
	if q.channels == nil {
		q.channels = make(map[string][]string)
	}
	others := slices.DeleteFunc(q.channels[kind], func(s string) bool { return s == channel })
	if kind == event {
		others = append(others, channel)
	}
	q.channels[kind] = others
	return req.awaits == 0
}

// event returns what a message of a subscription is ("subscribe", "message" …)
// and its channel, or "" for any other value.
func (q *pairing) event(raw string) (event, channel string) {
	switch {
	case raw[0] == '>':
	case raw[0] == '*' && (q.subscribing() || q.lists && q.subscribed()):
	default:
		return "", ""
	}
	parts, err := proto.ReadArray(raw)
	if err != nil || len(parts) < 3 {
		return "", ""
	}
	event, err = proto.ReadString(parts[0])
	if err != nil || !isEvent(event) {
		return "", ""
	}
	channel, _ = proto.ReadString(parts[1])
	if strings.HasSuffix(event, "subscribe") {
		q.lists = raw[0] == '*'
	}
	return event, channel
}

// subscribing reports whether the next reply may confirm a subscription.
func (q *pairing) subscribing() bool {
	req := q.head()
	return req != nil && strings.HasSuffix(strings.ToLower(req.cmd[0]), "subscribe")
}

func (q *pairing) subscribed() bool {
	for _, channels := range q.channels {
		if len(channels) > 0 {
			return true
		}
	}
	return false
}

func isEvent(name string) bool {
	switch name {
	case "message", "pmessage", "smessage",
		"subscribe", "psubscribe", "ssubscribe",
		"unsubscribe", "punsubscribe", "sunsubscribe":
		return true
	default:
		return false
	}
}
