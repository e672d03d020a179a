package rows_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/rows"
)

func TestTimes(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, time.Hour: 3_600_000_000} {
		if got := rows.Micros(d); got != want {
			t.Errorf("Micros(%v): got %d, want %d", d, got, want)
		}
	}
	const century = 100 * 365 * 24 * 3_600_000_000
	for _, us := range []int64{-30 * century, -1 << 62} {
		if got := rows.Duration(us); got > -200*365*24*time.Hour {
			t.Errorf("Duration of what is long over: got %v", got)
		}
	}
}
