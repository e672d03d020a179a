package dash

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

// chartsData are the charts of the last hour.
type chartsData struct{ Charts []chart }

// chart has a bar for each minute of the last hour, drawn on 600 x 120 units.
type chart struct {
	ID, Title, Summary string
	Top                string // the value of the highest bar
	Bars               []bar
}

// bar shows one minute. Tall is the height of the high value, and Low that of the low value,
// which is drawn in front.
type bar struct {
	X             int
	Tall, TallTop int
	Low, LowTop   int
	Title         string
}

const chartHeight = 120

// value has the two numbers of one minute; low is drawn in front of high.
type value struct{ low, high float64 }

// draw makes a chart of the values of the minutes. The function say formats a value.
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

// slot returns the index of the bar for the time at, or -1 if that is more than an hour
// before now.
func slot(now, at time.Time) int {
	i := chartMinutes - 1 - int(now.Unix()/60-at.Unix()/60)
	return min(max(i, -1), chartMinutes-1)
}

// holdTimes draws the durations of the holds that ended in the last hour.
func holdTimes(now time.Time, list []event) chart {
	var times [chartMinutes][]time.Duration
	var all []time.Duration
	polled := map[admin.Ended]bool{} // ends that holders may also report as losses
	for _, s := range list {
		if (s.Kind == eventForced || s.Kind == eventExpired) && s.Held > 0 {
			polled[s.hold()] = true
		}
	}
	for _, s := range list {
		if !s.ends() || s.Kind == eventForced && s.Held == 0 || s.Kind == eventLost && polled[s.hold()] {
			continue
		}
		if i := slot(now, s.At); i >= 0 {
			times[i] = append(times[i], s.Held)
			all = append(all, s.Held)
		}
	}
	var values [chartMinutes]value
	for i, t := range times {
		if len(t) > 0 {
			slices.Sort(t)
			values[i] = value{t[len(t)/2].Seconds(), t[len(t)-1].Seconds()}
		}
	}
	summary := "No hold has ended in the last hour."
	if len(all) > 0 {
		slices.Sort(all)
		count := fmt.Sprintf("%d holds", len(all))
		if len(all) == 1 {
			count = "1 hold"
		}
		summary = fmt.Sprintf("%s ended in the last hour: half within %s, the longest %s.",
			count, span(all[len(all)/2]), span(all[len(all)-1]))
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
		summary = fmt.Sprintf("At most %d waited at once in the last hour.", most)
	}
	return draw("chart-waiting", "Waiters", now, values, summary, func(v float64) string {
		return fmt.Sprintf("%d waiting", int(v))
	})
}

// lockCharts draws the charts of one lock.
func (d *Dashboard) lockCharts(now time.Time, name string) chartsData {
	list := d.eventLog.of(name, now.Add(-time.Hour), mostEvents, nil)
	var values [chartMinutes]value
	count, last := 0, 0
	for _, s := range slices.Backward(list) {
		if s.Kind != eventWaiting {
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
	if ok {
		if now := waiting(e.Record); count == 0 {
			count, last = now, chartMinutes-1
		}
	}
	for i := last; i < chartMinutes; i++ {
		values[i].high = max(values[i].high, float64(count))
	}
	return chartsData{[]chart{waits(now, values, ok && waitersHidden(e.Record)), holdTimes(now, list)}}
}

// allCharts draws the charts of all locks.
func (d *Dashboard) allCharts(now time.Time) chartsData {
	var values [chartMinutes]value
	for i, m := range d.eventLog.samples(now) {
		values[i].high = float64(m.waiting)
	}
	return chartsData{[]chart{waits(now, values, d.table.hidden()), holdTimes(now, d.eventLog.of("", now.Add(-time.Hour), mostEvents, nil))}}
}
