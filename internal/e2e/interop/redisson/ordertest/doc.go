// Package ordertest runs Redisson's fair and read-write locks beside Holdfast's:
// the order of arrivals, which may be inside together, and what is left of those who die,
// stand still or give up. It has nothing but tests.
package ordertest
