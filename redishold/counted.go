package redishold

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Plain semaphores and latches are bare counters: nothing in Redisson's layout
// says whose a decrement was. So each call leaves a mark for a while, in the
// same script, and repeated after a lost reply it finds that it was done.

// Codes that the scripts of counters begin their replies with.
const (
	codeOtherKind = -1 // the key is something else
	codeNo        = 0
	codeYes       = 1
)

// counter is what plain semaphores and latches have in common.
type counter struct {
	*layout
	script *Script // its probe
	at     func(place) string
}

func (c counter) probe() *Script { return c.script }

func (c counter) channel(p place, _ driver.Claim) string { return c.at(p) }

// call returns the key of the mark that says that a call was done.
func (l *layout) call(p place, id string) string { return l.beside(p.lock, "call") + ":" + id }

// counted runs a call whose script answers {code, number}, where the number of
// a call that publishes counts those who heard it.
func (b *Backend) counted(ctx context.Context, p place, channel string, c Call) (answer counterReply, err error) {
	p.channel = channel // for what an error says
	value, err := b.call(ctx, c)
	if err != nil {
		return counterReply{}, notBegun(b.classify(p, err))
	}
	code, numbers, err := parseNumbers(c.Script, value, 2)
	switch {
	case err != nil:
		return counterReply{}, err
	case code == codeOtherKind:
		return counterReply{}, errOtherKind(p)
	case code == codeNo && !b.mayRefuse(c.Script):
		return counterReply{}, badReply(c.Script.Name(), value)
	case code == codeYes && numbers[0] < 0 && !readsOnly(c):
		b.warnMute("refused by " + c.Script.Name())
	}
	return counterReply{yes: code == codeYes, number: numbers[0]}, nil
}

// mayRefuse reports that a script may have nothing to do: the others always do
// what they are asked for.
func (b *Backend) mayRefuse(s *Script) bool {
	return s == b.latches.set || s == b.permits.set || s == b.permits.take || s == b.permits.undo
}

// readsOnly reports that a call publishes nothing: its number may be negative.
func readsOnly(c Call) bool { return len(c.Args) == 0 }

// counterReply is what the scripts of counters answer.
type counterReply struct {
	yes    bool
	number int64
}

// parseNumbers reads a reply of a code and some numbers, size in all.
func parseNumbers(script *Script, value any, size int) (code int64, numbers []int64, err error) {
	r := reading{list: asList(value), ok: true}
	code = r.number()
	for r.more() {
		numbers = append(numbers, r.number())
	}
	if !r.ok || len(numbers) != size-1 || code < codeOtherKind || code > codeYes {
		return 0, nil, badReply(script.Name(), value)
	}
	return code, numbers, nil
}

// callID names one call of a counter.
func callID() string { return rand.Text() }

// How long a mark of a call lasts. A latch's is repeated by the core for as long
// as its caller has patience.
const (
	permitsMark = time.Minute
	latchMark   = 5 * time.Minute
)
