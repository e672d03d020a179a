package goredisconn

import (
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
)

// These are limits for the settings of a client with Sentinels. go-redis always asks the
// same Sentinel. After the loss of that Sentinel, go-redis asks the others only after two
// commands without a reply, and DialTimeout limits both commands together. A third command
// goes to all Sentinels, also to the lost one, and go-redis waits for all replies.
const (
	longestRead = 1500 * time.Millisecond
	longestDial = 4 * time.Second
	betterRead  = time.Second
)

// failoverAddr is the address of a client with Sentinels, as go-redis reports it.
const failoverAddr = "FailoverClient"

// advice returns the settings with which a client with Sentinels searches too long for a new
// master. go-redis has already filled its defaults into o. So a MaxRetries of 0 means no
// retries, and a timeout of 0 or -1 means no timeout.
func advice(o *redis.Options) []redishold.Advice {
	if o.Addr != failoverAddr {
		return nil
	}
	var found []redishold.Advice
	add := func(setting, is, better, why string) {
		found = append(found, redishold.Advice{Setting: "FailoverOptions." + setting, Is: is, Better: better, Why: why})
	}
	if o.MaxRetries > 0 {
		add("MaxRetries", strconv.Itoa(o.MaxRetries), "-1", "When a machine with the Sentinel that go-redis uses fails, "+
			"go-redis asks that Sentinel again so many times before it asks another Sentinel. Meanwhile the locks that are held are lost.")
	}
	read := o.ReadTimeout
	if read <= 0 || read > longestRead {
		read = betterRead
		add("ReadTimeout", timeout(o.ReadTimeout), betterRead.String(), "When a machine fails, go-redis waits for this machine so long, "+
			"up to four times in a row, before it finds the new master.")
	}
	if o.DialTimeout <= 2*read || o.DialTimeout > longestDial {
		add("DialTimeout", timeout(o.DialTimeout), "3s", "It must be longer than two ReadTimeouts, "+
			"otherwise go-redis stays with a Sentinel whose machine has failed. It must not be longer than the search for a new master may take.")
	}
	return found
}

func timeout(d time.Duration) string {
	if d <= 0 {
		return "none"
	}
	return d.String()
}
