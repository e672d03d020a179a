package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

func TestTakenUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		noon := time.Date(now.Year(), now.Month(), now.Day(), 12, 0, 30, 0, time.Local)
		for end, want := range map[time.Time]string{
			noon:                           "taken until 12:00:30",
			noon.UTC():                     "taken until 12:00:30",
			noon.Add(-time.Millisecond):    "taken until 12:00:30",
			noon.Add(time.Millisecond):     "taken until 12:00:31",
			noon.AddDate(0, 0, 1):          "taken until " + noon.AddDate(0, 0, 1).Format(time.DateOnly) + " 12:00:30",
			noon.AddDate(0, 0, -1).Local(): "taken until " + noon.AddDate(0, 0, -1).Format(time.DateOnly) + " 12:00:30",
		} {
			if got := clock.TakenUntil(end); got != want {
				t.Errorf("%v: got %q, want %q", end, got, want)
			}
		}
	})
}
