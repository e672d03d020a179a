package config

import "time"

// ParseDuration returns the time that a user has written. It has a unit, such as 30s or 1m30s. A
// number without a unit means seconds, as for flock and timeout.
func ParseDuration(text string) (time.Duration, error) {
	if last := len(text) - 1; last >= 0 && text[last] >= '0' && text[last] <= '9' {
		text += "s"
	}
	return time.ParseDuration(text)
}
