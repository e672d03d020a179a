package promhold

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
)

// ages records since when each lock is held, except for those of elections: a leader may
// hold its lock for as long as it lives.
type ages struct {
	desc *prometheus.Desc

	mu     sync.Mutex
	holds  map[holdKey]*age
	series map[ageLabels]struct{} // all labels that were ever used, because a series must not vanish
}

// holdKey identifies a hold. The key stays the same if the hold is passed on to another
// goroutine.
type holdKey struct{ name, owner string }

type ageLabels struct{ kind, group string }

// age counts the reported events of a hold: how often it has begun, minus how often it has
// ended. The beginning of the next hold may be reported before the end of the one before. A
// loss may be reported before its acquire: then the number is negative.
type age struct {
	ageLabels
	holds int
	began time.Time // when the last beginning was reported
}

func newAges() *ages {
	return &ages{
		desc: prometheus.NewDesc("holdfast_oldest_hold_seconds", "For how long the lock has been held that this process has held longest, without those of elections; 0 if it holds none.",
			[]string{"kind", "lock_group"}, nil),
		holds: make(map[holdKey]*age), series: make(map[ageLabels]struct{}),
	}
}

// add records that a hold has begun (`by` is 1) or ended (`by` is -1).
func (a *ages) add(e holdfast.Event, group string, by int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, labels := holdKey{e.Name, e.Owner}, ageLabels{e.Kind, group}
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
		h.began = time.Now()
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
			oldest[h.ageLabels] = max(oldest[h.ageLabels], time.Since(h.began))
		}
	}
	return oldest
}
