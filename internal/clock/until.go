package clock

import "time"

// TakenUntil returns a text for people, such as "taken until 15:04:05". The time in the text is
// `end` in local time, rounded up to a second, with the date if that is not today.
func TakenUntil(end time.Time) string {
	end = end.Add(time.Second - 1).Truncate(time.Second).Local()
	format := time.TimeOnly
	if today := time.Now().Format(time.DateOnly); end.Format(time.DateOnly) != today {
		format = time.DateTime
	}
	return "taken until " + end.Format(format)
}
