package rueidisconn

import (
	"testing"
)

func TestReadSlots(t *testing.T) {
	node := func(host any, port int64) []any { return []any{host, port, "id", []any{}} }
	reply := []any{
		[]any{int64(8000), int64(16383), node("", 7002), node("10.0.0.5", 7003)},
		[]any{int64(0), int64(4999), node("10.0.0.1", 7000)},
		[]any{int64(5000), int64(5000), node("::1", 7001)},
		[]any{int64(5001), int64(5001), node("?", 7001)}, // no name
		[]any{int64(5002), int64(5002), node(nil, 7009)},
		[]any{int64(5003), int64(5003), []any{"10.0.0.7", int64(7004)}},
		[]any{"odd"},
		"odd",
		[]any{int64(1), "2", node("h", 1)},
		[]any{int64(1), int64(2), "odd"},
		[]any{int64(1), int64(2), []any{"h", "1"}},
	}
	slots := readSlots(reply, "10.0.0.9:6379")
	for slot, want := range map[int]string{
		0: "10.0.0.1:7000", 1: "10.0.0.1:7000", 4999: "10.0.0.1:7000", 5000: "[::1]:7001", 5001: "", 5002: "10.0.0.9:7009", 5003: "10.0.0.7:7004",
		7999: "", 8000: "10.0.0.9:7002", 16383: "10.0.0.9:7002", 16384: "",
	} {
		if got := slots.home(slot); got != want {
			t.Errorf("slot %d: got %q, want %q", slot, got, want)
		}
	}
	for _, odd := range []any{nil, "odd", int64(1), []any{}} {
		if got := readSlots(odd, "h:1"); len(got) != 0 || got.home(1) != "" {
			t.Errorf("%v: got %v, want nothing", odd, got)
		}
	}
}
