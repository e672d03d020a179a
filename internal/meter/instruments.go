package meter

// Metric names one of the metrics: it is the index of that metric in the result of Instruments.
type Metric int

// The metrics. Instruments describes each of them.
const (
	Acquires      Metric = iota // calls of Lock and TryLock that have ended
	Holds                       // holds that have ended
	Margins                     // how much time was left when renewals ended
	Calls                       // calls to the store
	Held                        // locks that are held now
	Waiting                     // calls that wait now
	Renewals                    // renewals, by their outcome
	Lost                        // losses, by their reason
	Wakeups                     // wakeups of waiters, by their source
	Indeterminate               // calls without an answer
	Leader                      // whether this process is a leader
)

// Kind says how the values of a metric are added up.
type Kind int

// The kinds of metrics.
const (
	Histogram Kind = iota // times in seconds, in buckets
	Counter               // a number that rises
	Gauge                 // a number that rises and falls
)

// Instrument describes a metric.
type Instrument struct {
	Kind   Kind
	Name   string    // words with dots between them
	Unit   string    // the unit in OpenTelemetry; "" if only Prometheus has the metric
	Labels []string  // the names of the labels
	Bounds []float64 // the bounds of the buckets of a Histogram
	Help   string
}

// Instruments returns the descriptions of the metrics, in the order of the constants above.
func Instruments() []Instrument {
	return []Instrument{
		Acquires: {
			Kind: Histogram, Name: "acquire.duration", Unit: "s", Labels: []string{"kind", "backend", "outcome", "lock_group", "election"},
			Help: "Time from the call of Lock or TryLock to its end.",
			// The bounds begin with the time of a round trip, and end with the longest waits.
			Bounds: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		},
		Holds: {
			Kind: Histogram, Name: "hold.duration", Unit: "s", Labels: []string{"kind", "end"},
			Help:   "Time from the acquire of a lock to its release or loss.",
			Bounds: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400},
		},
		Margins: {
			Kind: Histogram, Name: "renew.margin", Unit: "s", Labels: []string{"kind"},
			Help: "Time that was left, when a renewal was answered or failed, until the lock would have counted as lost.",
			// A margin is between 0 and two thirds of a TTL. The default TTL is 30 s.
			Bounds: []float64{.01, .05, .1, .25, .5, 1, 2, 3, 5, 7.5, 10, 12.5, 15, 17.5, 20, 30, 60},
		},
		Calls: {
			Kind: Histogram, Name: "backend.operation.duration", Labels: []string{"op", "outcome"},
			Help: "Time of one call to the store, until the reply or the timeout.",
			// The bounds begin with the times of a store in this process, and end with those of
			// a store that does not answer.
			Bounds: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		},
		Held:          {Gauge, "held", "{lock}", []string{"kind", "lock_group"}, nil, "Locks that this process holds."},
		Waiting:       {Gauge, "waiting", "{call}", []string{"kind", "lock_group", "election"}, nil, "Calls of Lock and TryLock that wait in this process."},
		Renewals:      {Counter, "renewals", "{renewal}", []string{"outcome"}, nil, "Renewals of locks by their answer."},
		Lost:          {Counter, "lost", "{lock}", []string{"reason"}, nil, "Locks that ended before they were unlocked, other than by their option FixedLease."},
		Wakeups:       {Counter, "wakeups", "{wakeup}", []string{"source"}, nil, "Times that a waiter asked the store again: after a notification, or after a pause."},
		Indeterminate: {Counter, "indeterminate", "{call}", []string{"op", "resolved"}, nil, "Calls without an answer that were followed up: whether their result is known."},
		Leader:        {Gauge, "leader", "{leader}", []string{"election"}, nil, "Whether this process holds the lock of an election."},
	}
}
