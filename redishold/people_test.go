package redishold

import "time"

// Times of internal/clients: for how long it uses what it read.
const (
	nameLife    = 10 * time.Second
	unknownLife = time.Second
	holdsLife   = 2 * time.Second
	asideLimit  = 250 * time.Millisecond // of a call for people
)
