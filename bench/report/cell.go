package report

import (
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/work"
)

// Sample is one measurement: what all its processes and the server did.
type Sample struct {
	work.Result

	Shares    []int64       // pairs of each process
	Commands  int64         // that the server executed, in Redis those of scripts included
	Calls     int64         // of scripts
	ServerCPU time.Duration // of the server
	Foreign   float64       // cores that other programs kept busy
}

// Cell is all samples of one peer at one work.
type Cell struct {
	Work    work.Work
	Peer    peer.Spec
	Samples []Sample
	Left    string // why it could not be measured; "" if it was
}

// Summary is a Cell in figures: medians over its samples. "Per pair" is per lock
// and unlock; of a work that keeps names it is per name and second.
type Summary struct {
	Rate   float64 // pairs per second; Keep: names per core-second of the client
	Spread float64 // of the rate
	Turns  float64 // changes of the one name from process to process, per second

	Commands  float64 // per pair
	Calls     float64
	ServerCPU time.Duration
	ClientCPU time.Duration
	Allocs    float64
	Bytes     float64

	Jain       float64 // over the goroutines
	LeastShare float64 // of a process, as a part of what is its due
	MostShare  float64
	Longest    time.Duration // the longest of all samples
	DeadP50    time.Duration // over all samples
	DeadP99    time.Duration

	Busy       float64 // cores that the client kept busy
	CommandsPS float64 // commands per second
	Goroutines float64 // for each name that is kept
	Memory     float64 // bytes, the same
	LeastLeft  float64 // of a lease, as a part of the TTL, less the margin: the least of all samples

	Violations int64 // the sum
	Disturbed  int   // samples in which other programs ran
}

// disturbance is from how many foreign cores on a sample counts as disturbed.
const disturbance = 0.15

// Disturbed reports whether other programs had a part in a sample.
func (s Sample) Disturbed() bool { return s.Foreign > disturbance }

// units returns by what the costs of a sample are divided.
func (s Sample) units() float64 {
	if s.Kept > 0 {
		return float64(s.Kept) * s.Elapsed.Seconds()
	}
	return float64(max(1, s.Pairs))
}

func (s Sample) rate() float64 {
	if s.Kept > 0 {
		return Ratio(s.units(), s.CPU.Seconds())
	}
	return Ratio(float64(s.Pairs), s.Elapsed.Seconds())
}

// Summary returns the figures of a Cell.
func (c Cell) Summary() Summary {
	var rates []float64
	dead := work.NewLatencies()
	var sum Summary
	for _, s := range c.Samples {
		rates = append(rates, s.rate())
		dead = dead.Merge(s.Dead)
		sum.Longest = max(sum.Longest, s.Longest)
		sum.Violations += s.Violations
		if sum.LeastLeft == 0 || s.LeastLeft < sum.LeastLeft {
			sum.LeastLeft = s.LeastLeft
		}
		if s.Disturbed() {
			sum.Disturbed++
		}
	}
	sum.Rate, sum.Spread = Median(rates), Spread(rates)
	sum.DeadP50, sum.DeadP99 = dead.At(0.5), dead.At(0.99)
	c.costs(&sum)
	c.fairness(&sum)
	return sum
}

// median is the median of a figure over all samples.
func (c Cell) median(figure func(Sample) float64) float64 {
	values := make([]float64, len(c.Samples))
	for i, s := range c.Samples {
		values[i] = figure(s)
	}
	return Median(values)
}

func (c Cell) costs(sum *Summary) {
	each := func(figure func(Sample) float64) float64 {
		return c.median(func(s Sample) float64 { return figure(s) / s.units() })
	}
	sum.Commands = each(func(s Sample) float64 { return float64(s.Commands) })
	sum.Calls = each(func(s Sample) float64 { return float64(s.Calls) })
	sum.ServerCPU = time.Duration(each(func(s Sample) float64 { return float64(s.ServerCPU) }))
	sum.ClientCPU = time.Duration(each(func(s Sample) float64 { return float64(s.CPU) }))
	sum.Allocs = each(func(s Sample) float64 { return float64(s.Allocs) })
	sum.Bytes = each(func(s Sample) float64 { return float64(s.Bytes) })
	sum.Turns = c.median(func(s Sample) float64 { return Ratio(float64(s.Turns), s.Elapsed.Seconds()) })
	sum.Busy = c.median(func(s Sample) float64 { return Ratio(s.CPU.Seconds(), s.Elapsed.Seconds()) })
	sum.CommandsPS = c.median(func(s Sample) float64 { return Ratio(float64(s.Commands), s.Elapsed.Seconds()) })
	sum.Goroutines = c.median(func(s Sample) float64 { return s.Goroutines })
	sum.Memory = c.median(func(s Sample) float64 { return s.Memory })
}

func (c Cell) fairness(sum *Summary) {
	sum.Jain = c.median(func(s Sample) float64 { return Jain(s.Each) })
	sum.LeastShare = c.median(func(s Sample) float64 { return share(s.Shares, func(a, b int64) int64 { return min(a, b) }) })
	sum.MostShare = c.median(func(s Sample) float64 { return share(s.Shares, func(a, b int64) int64 { return max(a, b) }) })
}

// share returns the share that pick picks, as a part of the mean.
func share(shares []int64, pick func(a, b int64) int64) float64 {
	if len(shares) == 0 {
		return 0
	}
	picked, total := shares[0], int64(0)
	for _, s := range shares {
		picked = pick(picked, s)
		total += s
	}
	return Ratio(float64(picked)*float64(len(shares)), float64(total))
}
