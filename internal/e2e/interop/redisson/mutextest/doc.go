// Package mutextest is Redisson's RLock, and the locks that share its layout
// (fenced, spin and non-reentrant), beside Holdfast's mutex, on one server.
package mutextest
