// Package promhold turns the events of Holdfast into Prometheus metrics.
//
//	metrics := promhold.New(nil)
//	prometheus.MustRegister(metrics)
//	locker := holdfast.New(store, &holdfast.Options{Observe: metrics.Observe})
//
// One Metrics can serve any number of Lockers. A program that also wants traces calls
// both observers from one function:
//
//	Observe: func(ctx context.Context, e holdfast.Event) {
//		metrics.Observe(ctx, e)
//		telemetry.Observe(ctx, e) // of package otelhold
//	},
//
// The number of lock names is not limited, so the name of a lock is no label. But Options can
// map the name to a group or to an election, which is a label. docs/metrics.md of the
// repository lists the metrics and the alerts. The repository has a Grafana dashboard and alert
// rules.
package promhold
