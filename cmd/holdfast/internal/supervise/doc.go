// Package supervise holds a lock for a command: it asks for the lock, shows people what it
// waits for, runs the command, stops it before the lock can go to another client, and
// releases the lock.
package supervise
