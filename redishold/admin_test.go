package redishold

import "time"

// Times of internal/clients: for how long it uses what it read.
const (
	knownFor    = 10 * time.Second
	unknownFor  = time.Second
	newHoldFor  = 2 * time.Second
	infoTimeout = 250 * time.Millisecond // of a call for people
)
