package dash

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/internal/plural"
)

// chart has a bar for each minute of the last hour, drawn on 600 x 120 units.
type chart struct {
	ID, Title, Summary string
	Top                string // the value of the highest bar
	Bars               []bar
}

// bar shows one minute. The field Tall is the height of the high value. The field Low is the
// height of the low value, which is drawn in front.
type bar struct {
	X             int
	Tall, TallTop int
	Low, LowTop   int
	Title         string
}

const chartHeight = 120

// value has the two numbers of one minute; low is drawn in front of high.
type value struct{ low, high float64 }

// draw makes a chart of the values of the minutes. The function `say` formats a value.
func draw(id, title string, now time.Time, values [chartMinutes]value, summary string, say func(float64) string) chart {
	var most float64
	for _, v := range values {
		most = max(most, v.high)
	}
	c := chart{ID: id, Title: title, Summary: summary, Top: say(most)}
	if most == 0 {
		c.Top = ""
		return c
	}
	for i, v := range values {
		if v.high == 0 {
			continue
		}
		tall, low := max(2, int(v.high/most*chartHeight)), int(v.low/most*chartHeight)
		at := now.Add(time.Duration(i-chartMinutes+1) * time.Minute).Format("15:04")
		b := bar{X: i * 10, Tall: tall, TallTop: chartHeight - tall, Low: low, LowTop: chartHeight - low}
		b.Title = at + ": " + say(v.high)
		if v.low > 0 && v.low != v.high {
			b.Title = at + ": " + say(v.low) + ", at most " + say(v.high)
		}
		c.Bars = append(c.Bars, b)
	}
	return c
}

// slot returns the index of the bar for the time `at`, or -1 if that time is more than an
// hour before `now`.
func slot(now, at time.Time) int {
	i := chartMinutes - 1 - int(now.Unix()/60-at.Unix()/60)
	return min(max(i, -1), chartMinutes-1)
}

// holdTimes draws the durations of the holds that ended in the last hour.
func holdTimes(now time.Time, list []event) chart {
	var times [chartMinutes][]time.Duration
	polled := map[admin.Ended]bool{} // holds whose end was found by polling; their holders may report a loss, too
	for _, s := range list {
		if (s.Type == admin.EntryForced || s.Type == observe.Expired) && s.HeldFor > 0 {
			polled[s.Hold()] = true
		}
	}
	for _, s := range list {
		again := s.Type == admin.EntryForced && s.HeldFor == 0 || s.Type == admin.EntryLost && polled[s.Hold()]
		if i := slot(now, s.At); i >= 0 && s.ends() && !again {
			times[i] = append(times[i], s.HeldFor)
		}
	}
	var values [chartMinutes]value
	for i, t := range times {
		if len(t) > 0 {
			slices.Sort(t)
			values[i] = value{t[len(t)/2].Seconds(), t[len(t)-1].Seconds()}
		}
	}
	all := slices.Concat(times[:]...)
	slices.Sort(all)
	summary := "No hold has ended in the last hour."
	if n := len(all); n > 0 {
		summary = fmt.Sprintf("%s ended in the last hour. Half of them lasted at most %s, the longest lasted %s.", plural.Count(n, "hold"), span(all[n/2]), span(all[n-1]))
		if n == 1 {
			summary = fmt.Sprintf("1 hold ended in the last hour. It lasted %s.", span(all[0]))
		}
	}
	return draw("chart-held", "Hold times", now, values, summary, func(v float64) string {
		return span(time.Duration(v * float64(time.Second)))
	})
}

// waits draws the numbers of waiters. If hidden is true, there may have been waiters that the
// store does not show.
func waits(now time.Time, values [chartMinutes]value, hidden bool) chart {
	most := 0
	for _, v := range values {
		most = max(most, int(v.high))
	}
	summary := "No client waited in the last hour."
	switch {
	case most == 0 && hidden:
		summary = "Unknown: the store does not show whether clients wait."
	case most > 0:
		summary = fmt.Sprintf("At most %s waited at the same time in the last hour.", plural.Count(most, "client"))
	}
	return draw("chart-waiting", "Waiters", now, values, summary, func(v float64) string {
		return fmt.Sprintf("%d waiting", int(v))
	})
}

// lockCharts draws the charts of one lock.
func (d *Dashboard) lockCharts(now time.Time, name string) []chart {
	list := d.eventLog.of(now.Add(-time.Hour), mostEvents, func(s *event) bool { return s.Name == name })
	var values [chartMinutes]value
	count, last := 0, 0
	for _, s := range slices.Backward(list) {
		if s.Type != admin.EntryWaiting {
			continue
		}
		at := max(slot(now, s.At), 0)
		for i := last; i <= at; i++ {
			values[i].high = max(values[i].high, float64(count))
		}
		count, last = s.Count, at
		values[at].high = max(values[at].high, float64(count))
	}
	e, ok := d.table.Get(name)
	if ok && count == 0 {
		count, last = waiting(e.Record), chartMinutes-1
	}
	for i := last; i < chartMinutes; i++ {
		values[i].high = max(values[i].high, float64(count))
	}
	return []chart{waits(now, values, ok && waitersHidden(e.Record)), holdTimes(now, list)}
}

// allCharts draws the charts of all locks.
func (d *Dashboard) allCharts(now time.Time) []chart {
	list := d.eventLog.of(now.Add(-time.Hour), mostEvents, func(s *event) bool { return s.ends() })
	return []chart{waits(now, d.eventLog.samples(now), sum(d.table.All).Hidden), holdTimes(now, list)}
}
