// Package demo shows what a distributed lock is for, to someone who has never used one. A
// shop without a lock sells more items than it has. With a lock it does not. Then a process
// that has lost its lock tries to write nevertheless.
//
// The buyers and holders are processes of their own, started from the same
// program, because that is what a distributed lock is about. Run runs the demo
// and judges it; Serve serves the dashboard with a page of scenes, for people who
// want to try it themselves; Work is the part of such a process.
package demo
