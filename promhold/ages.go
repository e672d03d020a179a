package promhold

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
)

// ages knows since when each lock is held, but for those of elections: a leader may hold
// for as long as it lives.
type ages struct {
	desc *prometheus.Desc

	mu     sync.Mutex
	holds  map[heldBy]*age
	series map[ageLabels]struct{} // that were ever seen: a series does not vanish
}

// heldBy is a hold. One that passes on between goroutines keeps its owner.
type heldBy struct{ name, owner string }

type ageLabels struct{ kind, group string }

// age is how often a hold has begun and not ended, as far as was reported. That of the
// next goroutine may begin before the end of the one before is reported, and a loss be
// reported before its acquire: then it is negative.
type age struct {
	ageLabels
	holds int
	since time.Time // of the last one
}

func newAges() *ages {
	return &ages{
		desc: prometheus.NewDesc("holdfast_oldest_hold_seconds", "For how long the lock has been held that this process has held longest, without those of elections; 0 if it holds none.",
			[]string{"kind", "lock_group"}, nil),
		holds: make(map[heldBy]*age), series: make(map[ageLabels]struct{}),
	}
}

// add notes that a hold has begun, by 1, or ended, by -1.
func (a *ages) add(e holdfast.Event, group string, by int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, labels := heldBy{e.Name, e.Owner}, ageLabels{e.Kind, group}
	a.series[labels] = struct{}{}
	h := a.holds[key]
	if h == nil {
		h = &age{ageLabels: labels}
		a.holds[key] = h
	}
	if h.holds += by; h.holds == 0 {
		delete(a.holds, key)
	}
	if by > 0 {
		h.since = time.Now()
	}
}

// Describe implements prometheus.Collector.
func (a *ages) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

// Collect implements prometheus.Collector.
func (a *ages) Collect(ch chan<- prometheus.Metric) {
	for labels, oldest := range a.oldest() {
		ch <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, oldest.Seconds(), labels.kind, labels.group)
	}
}

func (a *ages) oldest() map[ageLabels]time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	oldest := make(map[ageLabels]time.Duration, len(a.series))
	for labels := range a.series {
		oldest[labels] = 0
	}
	for _, h := range a.holds {
		if h.holds > 0 {
			oldest[h.ageLabels] = max(oldest[h.ageLabels], time.Since(h.since))
		}
	}
	return oldest
}
