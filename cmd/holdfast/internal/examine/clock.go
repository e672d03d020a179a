package examine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/redishold/doctor"
)

const (
	clockTrips = 5           // the quickest of them counts
	clockOff   = time.Second // from this difference on it is a warning, as in doctor for Redis
)

// clock judges by how much the clock of a server is ahead of the clock of this machine. It
// uses the quickest of clockTrips round trips. The server read its clock at some time between
// the request and the answer, so the error is at most half of the trip.
func clock(ctx context.Context, read func(context.Context) (time.Time, error)) doctor.Finding {
	const id = "clock"
	var ahead, bound time.Duration
	for n := range clockTrips {
		start := time.Now()
		theirs, err := read(ctx)
		if err != nil {
			return saw(id, doctor.Unknown, "the server does not tell its time: %v", err)
		}
		if half := time.Since(start) / 2; n == 0 || half < bound {
			// Without Round the difference would be taken of monotonic times too.
			ahead, bound = theirs.Sub(start.Add(half).Round(0)), half
		}
	}
	direction := "ahead of ours"
	if ahead < 0 {
		direction = "behind ours"
	}
	by := ahead.Abs()
	f := saw(id, worse(by-bound >= clockOff, doctor.Warning), "its clock is %v %s (give or take %v)",
		by.Round(time.Millisecond), direction, bound.Round(time.Microsecond))
	return because(f, "the server counts leases by its clock; one that is wrong may be set suddenly, and then leases end early or late",
		"let chrony or another NTP client keep the clocks of both machines")
}
