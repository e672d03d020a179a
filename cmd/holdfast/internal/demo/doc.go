// Package demo shows what a distributed lock is for, to someone who has never
// used one: a shop sells more than it has, then it does not, and then a process
// that lost its lock tries to write nevertheless.
//
// The buyers and holders are processes of their own, started from the same
// program, because that is what a distributed lock is about. Run runs the demo
// and judges it; Serve serves the dashboard with a page of scenes, for people who
// want to try it themselves; Work is the part of such a process.
package demo
