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

// clock is by how much the clock of a server is ahead of the clock of this machine. The error
// of ahead is at most bound.
type clock struct{ ahead, bound time.Duration }

// compareClocks compares the two clocks with the quickest of clockTrips round trips. The
// server read its clock at some time between the request and the answer.
func compareClocks(ctx context.Context, read func(context.Context) (time.Time, error)) (c clock, err error) {
	for n := range clockTrips {
		start := time.Now()
		theirs, err := read(ctx)
		if err != nil {
			return c, err
		}
		if bound := time.Since(start) / 2; n == 0 || bound < c.bound {
			// Without Round the difference would be taken of monotonic times too.
			c = clock{theirs.Sub(start.Add(bound).Round(0)), bound}
		}
	}
	return c, nil
}

// clocks judges how well the clocks agree. If err is not nil, the server did not report its
// time.
func clocks(c clock, err error) doctor.Finding {
	const id = "clock"
	if err != nil {
		return saw(id, doctor.Unknown, "the server does not tell its time: %v", err)
	}
	direction := "ahead of ours"
	if c.ahead < 0 {
		direction = "behind ours"
	}
	by := c.ahead.Abs()
	f := saw(id, worse(by-c.bound >= clockOff, doctor.Warning), "its clock is %v %s (give or take %v)",
		by.Round(time.Millisecond), direction, c.bound.Round(time.Microsecond))
	return because(f, "the server counts leases by its clock; one that is wrong may be set suddenly, and then leases end early or late",
		"let chrony or another NTP client keep the clocks of both machines")
}
