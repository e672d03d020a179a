package promhold

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
)

// ages records since when each lock is held. It leaves out the locks of elections, because a
// leader may hold its lock for as long as it lives.
type ages struct {
	desc *prometheus.Desc

	mu     sync.Mutex
	holds  map[holdKey]*age
	series map[ageLabels]struct{} // all labels that were ever used, because a series must not vanish
}

// holdKey identifies the holds of one owner on one lock. If a goroutine passes the lock on to
// another goroutine, the next hold has the same key.
type holdKey struct{ name, owner string }

type ageLabels struct{ kind, group string }

// age has what was reported about the holds with one holdKey. The field `holds` is the number
// of reported beginnings minus the number of reported ends. It is 2 if the beginning of a hold
// is reported before the end of the previous hold. It is negative if the loss of a hold is
// reported before its acquire.
type age struct {
	ageLabels
	holds int
	began time.Time // when the last beginning of a hold was reported
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
