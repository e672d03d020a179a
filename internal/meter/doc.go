// Package meter says what the events of a Locker mean as metrics: which labels
// they get, and which buckets their times fall into. promhold and otelhold share
// it, so that both tell the same.
package meter
