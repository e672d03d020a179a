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
// Each acquire is a span holdfast.acquire below the span in the context of the caller.
// Options.HoldSpans adds a span holdfast.hold. The instrumentation of the store's client makes
// spans of the calls to the store. Spans have an attribute with the name of the lock. Metrics
// have no such attribute, but Options can map the name to a group or to an election, which is
// an attribute of metrics.
package otelhold
