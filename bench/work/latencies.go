package work

import (
	"cmp"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longestLatency is the end of a histogram: what takes longer counts as so long.
const longestLatency = 10 * time.Minute

// Latencies counts durations in a histogram, each to a thousandth. Its memory does not
// grow with their number. Several goroutines may add durations at once, and read when all
// have. A nil Latencies has no durations.
type Latencies struct {
	mu        sync.Mutex
	histogram *hdrhistogram.Histogram
}

// NewLatencies returns one without durations.
func NewLatencies() *Latencies {
	return &Latencies{histogram: hdrhistogram.New(1, int64(longestLatency), 3)}
}

// Add counts a duration. It allocates nothing.
func (l *Latencies) Add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.histogram.RecordValue(int64(min(max(d, 0), longestLatency))) // fails outside of that
}

// Merge adds all durations of another one and returns l, or the other if l is nil.
func (l *Latencies) Merge(other *Latencies) *Latencies {
	if l == nil || other == nil {
		return cmp.Or(l, other)
	}
	l.histogram.Merge(other.histogram)
	return l
}

// Count returns how many durations there are.
func (l *Latencies) Count() int64 {
	if l == nil {
		return 0
	}
	return l.histogram.TotalCount()
}

// At returns the duration that a part q of all do not exceed, 0.99 is 99 %; 0 if there
// are none.
func (l *Latencies) At(q float64) time.Duration {
	if l == nil {
		return 0
	}
	return time.Duration(l.histogram.ValueAtPercentile(100 * q))
}

// MarshalText writes the histogram in the format that all HdrHistograms share.
func (l *Latencies) MarshalText() ([]byte, error) {
	return l.histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
}

// UnmarshalText reads what MarshalText wrote.
func (l *Latencies) UnmarshalText(text []byte) (err error) {
	l.histogram, err = hdrhistogram.Decode(text)
	return err
}
