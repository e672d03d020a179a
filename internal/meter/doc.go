// Package meter turns the events of a Locker into metrics: it chooses their labels, and the
// buckets for their times. promhold and otelhold share it, so that both report the same.
package meter
