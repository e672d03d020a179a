package goredisconn

import (
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
)

// What a client with Sentinels may be set to. go-redis stays with one Sentinel. Once
// that is lost, it takes two questions without an answer before go-redis asks the
// others, and DialTimeout ends both together, with nothing learnt; a third one goes to
// the same Sentinel along with the others, and all are waited for.
const (
	longestRead = 1500 * time.Millisecond
	longestDial = 4 * time.Second
	betterRead  = time.Second
)

// failoverAddr is what go-redis calls the address of a client with Sentinels.
const failoverAddr = "FailoverClient"

// advice returns the settings of a client with Sentinels that let it search for a new
// master for too long. o is as go-redis has completed it: 0 are no retries, and no
// timeout is 0 or -1.
func advice(o *redis.Options) []redishold.Advice {
	if o.Addr != failoverAddr {
		return nil
	}
	var found []redishold.Advice
	add := func(setting, is, better, why string) {
		found = append(found, redishold.Advice{Setting: "FailoverOptions." + setting, Is: is, Better: better, Why: why})
	}
	if o.MaxRetries > 0 {
		add("MaxRetries", strconv.Itoa(o.MaxRetries), "-1", "When a machine is lost with the Sentinel that go-redis uses, "+
			"go-redis asks that one so much oftener before it asks another; held locks are lost meanwhile.")
	}
	read := o.ReadTimeout
	if read <= 0 || read > longestRead {
		read = betterRead
		add("ReadTimeout", timeout(o.ReadTimeout), betterRead.String(), "When a machine is lost, go-redis waits for it that long, "+
			"up to four times in a row, before it finds the new master.")
	}
	if o.DialTimeout <= 2*read || o.DialTimeout > longestDial {
		add("DialTimeout", timeout(o.DialTimeout), "3s", "It has to be longer than two ReadTimeouts, "+
			"or go-redis stays with a Sentinel whose machine is lost; and no longer than the search for a new master may take.")
	}
	return found
}

func timeout(d time.Duration) string {
	if d <= 0 {
		return "none"
	}
	return d.String()
}
