package clock

import "time"

// TakenUntil returns a text for people: a name is taken until the time `end`. The text has
// the local time, rounded up to a second, and the date if that is not today.
func TakenUntil(end time.Time) string {
	end = end.Add(time.Second - 1).Truncate(time.Second).Local()
	format := time.TimeOnly
	if today := time.Now().Format(time.DateOnly); end.Format(time.DateOnly) != today {
		format = time.DateTime
	}
	return "taken until " + end.Format(format)
}
