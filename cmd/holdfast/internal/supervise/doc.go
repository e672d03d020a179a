// Package supervise holds a lock for a command. It requests the lock, shows the holder while
// it waits, runs the command, stops it before another client can get the lock, and releases
// the lock.
package supervise
