// Package locktest runs Holdfast as its users do: real servers, several
// processes, faults in between, on both Redis adapters. It has nothing but
// tests.
package locktest
