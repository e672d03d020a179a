// Package otelhold turns the events of Holdfast into OpenTelemetry metrics and
// spans.
//
//	telemetry, err := otelhold.New(nil) // the global providers
//	if err != nil {
//		return err
//	}
//	locker := holdfast.New(store, &holdfast.Options{Observe: telemetry.Observe})
//
// The metrics have the same meaning as those of package promhold. Attributes have the names of
// the labels in promhold, so one dashboard works for both if a collector passes the metrics to
// Prometheus.
//
// Each acquire is a span holdfast.acquire below the span of the caller's context.
// Options.HoldSpans adds a span holdfast.hold. The instrumentation of the store's client makes
// spans of the calls to the store. Spans have the name of the lock. Metrics do not have the
// name, unless Options maps it to a group or an election.
package otelhold
