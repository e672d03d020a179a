// Package otelhold turns the events of Holdfast into OpenTelemetry metrics and
// spans.
//
//	telemetry, err := otelhold.New(nil) // the global providers
//	if err != nil {
//		return err
//	}
//	locker := holdfast.New(store, &holdfast.Options{Observe: telemetry.Observe})
//
// The metrics mean what those of package promhold mean. Attributes are called as
// its labels are, so that one dashboard reads both where a collector passes
// metrics on to Prometheus.
//
// Each acquire is a span holdfast.acquire below the span of the caller's
// context; Options.HoldSpans adds holdfast.hold. Calls to the store are spans of
// its client's own instrumentation. Spans carry the name of the lock; metrics do
// not, unless Options maps it.
package otelhold
