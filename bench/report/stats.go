// Package report turns samples into figures, tables and a plot.
package report

import (
	"slices"
	"time"
)

// Median returns the value in the middle, or the mean of the two there; 0 if
// there are none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Spread returns the distance between the largest and the smallest value as a
// part of the median: 0.1 is ten percent. It is 0 if the median is.
func Spread(values []float64) float64 {
	median := Median(values)
	if median == 0 {
		return 0
	}
	return (slices.Max(values) - slices.Min(values)) / median
}

// Jain returns Jain's index of fairness: 1 if all have the same, 1/n if one of n
// has everything. Nothing at all is fair.
func Jain(shares []int64) float64 {
	var sum, squares float64
	for _, s := range shares {
		sum += float64(s)
		squares += float64(s) * float64(s)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// Percentile returns the value that a part q of all do not exceed, by the nearest
// rank; 0 if there are none.
func Percentile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// Ratio returns a ÷ b, or 0 if b is 0: there is nothing to compare with.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
