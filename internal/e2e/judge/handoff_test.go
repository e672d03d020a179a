package judge

import (
	"testing"
	"time"
)

// Who was handed a lock late in its lease, and was killed with it, does not keep
// it for a whole lease: the store knows of the first holder's only.
func TestGivenLateInTheLease(t *testing.T) {
	for name, test := range map[string]struct {
		given bool
		next  int64 // ms, when another process is granted it
		legal bool
	}{
		"from the store":      {false, 150, false},
		"given":               {true, 150, true},
		"given, and too soon": {true, 110, false},
	} {
		ms := func(n int64) int64 { return n * 1e6 }
		h := New([]Event{
			{At: ms(0), What: Called, Op: 1, Name: "a", Side: Exclusive, Lease: ms(100), Process: 1},
			{At: ms(10), What: Granted, Op: 1, Token: 1, Left: ms(90), Given: test.given, Process: 1},
			{At: ms(1), What: Called, Op: 2, Name: "a", Side: Exclusive, Lease: ms(100), Process: 1},
			{At: ms(79), What: Unlock, Op: 1, Process: 1},
			{At: ms(81), What: Unlocked, Op: 1, Process: 1},
			{At: ms(80), What: Granted, Op: 2, Token: 2, Left: ms(40), Given: test.given, Process: 1},
			{At: ms(85), What: Killed, Op: -1, Process: 1},
			{At: ms(2), What: Called, Op: 1, Name: "a", Side: Exclusive, Lease: ms(100), Process: 2},
			{At: ms(test.next), What: Granted, Op: 1, Token: 3, Left: ms(90), Given: test.given, Process: 2},
		})
		if err := h.Linearizable(5*time.Second, nil).Err(); (err == nil) != test.legal {
			t.Errorf("%s: got %v, want legal: %v", name, err, test.legal)
		}
	}
}
