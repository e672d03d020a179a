package faultproxy

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/proto"
)

// readValue reads one whole RESP value, raw. The leaves that proto.Read knows
// concern it; it does not know verbatim strings (which Redis 7 answers to
// INFO under RESP3), booleans, big numbers, blob errors and attributes, alone or
// inside of an aggregate.
func readValue(r *bufio.Reader) (string, error) {
	kind, err := r.Peek(1)
	if err != nil {
		return "", err
	}
	switch kind[0] {
	case '*', '~', '>':
		return readAggregate(r, 1, 0)
	case '%':
		return readAggregate(r, 2, 0)
	case '|': // an attribute: a map, and then the value that it describes
		return readAggregate(r, 2, 1)
	case '=', '!':
		line, n, err := readHeader(r)
		if err != nil {
			return "", err
		}
		text := make([]byte, n+2)
		_, err = io.ReadFull(r, text)
		return line + string(text), err
	case '#', '(':
		return r.ReadString('\n')
	default:
		return proto.Read(r)
	}
}

// readAggregate reads a header with a length, then per×length+extra values.
func readAggregate(r *bufio.Reader, per, extra int) (string, error) {
	line, n, err := readHeader(r)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(line)
	for range n*per + extra {
		v, err := readValue(r)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
	}
	return b.String(), nil
}

func readHeader(r *bufio.Reader) (line string, n int, err error) {
	line, err = r.ReadString('\n')
	if err != nil {
		return "", 0, err
	}
	n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
	return line, max(n, 0), err
}
