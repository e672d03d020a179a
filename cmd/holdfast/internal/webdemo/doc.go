// Package webdemo shows locks at work on a web page: two instances of a program
// that want the same lock, five workers that race for a lock on several Redis,
// and a shop that sells more than it has, or does not.
//
// The two instances are processes of their own, so that they can be paused,
// killed and cut off as a program in production is. Serve runs the page; Work is
// the part of an instance.
package webdemo
