package promhold_test

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// series is one series: the value of a counter or a gauge, or the number of observations of
// a histogram.
type series struct {
	labels  map[string]string
	value   float64
	buckets map[float64]uint64 // cumulative, by upper bound
}

// gather returns the series that a registry gets from a collector, by name.
func gather(t *testing.T, c prometheus.Collector) map[string][]series {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]series)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			s := series{labels: map[string]string{}, buckets: map[float64]uint64{}}
			for _, pair := range metric.GetLabel() {
				s.labels[pair.GetName()] = pair.GetValue()
			}
			switch {
			case metric.Histogram != nil:
				s.value = float64(metric.GetHistogram().GetSampleCount())
				for _, b := range metric.GetHistogram().GetBucket() {
					s.buckets[b.GetUpperBound()] = b.GetCumulativeCount()
				}
			case metric.Counter != nil:
				s.value = metric.GetCounter().GetValue()
			default:
				s.value = metric.GetGauge().GetValue()
			}
			all[family.GetName()] = append(all[family.GetName()], s)
		}
	}
	return all
}

// find returns the series with exactly these labels, given as pairs.
func find(t *testing.T, c prometheus.Collector, name string, pairs []string) series {
	t.Helper()
	want := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	all := gather(t, c)[name]
	for _, s := range all {
		if maps.Equal(s.labels, want) {
			return s
		}
	}
	t.Fatalf("%s has no series %v, only %+v", name, want, all)
	return series{}
}

func wantSeries(t *testing.T, c prometheus.Collector, name string, want float64, pairs ...string) {
	t.Helper()
	if got := find(t, c, name, pairs); got.value != want {
		t.Errorf("%s%v: got %v, want %v", name, pairs, got.value, want)
	}
}

func wantBucket(t *testing.T, c prometheus.Collector, name string, bound float64, want uint64, pairs ...string) {
	t.Helper()
	if got, ok := find(t, c, name, pairs).buckets[bound]; !ok || got != want {
		t.Errorf("%s%v up to %v: got %d (there is such a bucket: %t), want %d", name, pairs, bound, got, ok, want)
	}
}
