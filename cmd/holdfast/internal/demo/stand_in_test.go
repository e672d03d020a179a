package demo

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/await"
)

func startWithClient(t *testing.T) (*StandIn, rueidis.Client) {
	t.Helper()
	s, err := StartStandIn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	opt, err := rueidis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	opt.DisableCache = true
	c, err := rueidis.NewClient(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return s, c
}

func TestKeysExpireInRealTime(t *testing.T) {
	_, c := startWithClient(t)
	const ttl = 300 * time.Millisecond
	var atMost, atLeast time.Duration
	late := await.Starved(func() {
		time.Sleep(20 * time.Millisecond) // so that the tick before the key counts too
		atMost, atLeast = expiry(t, c, ttl)
	})
	// A key set between two ticks is charged the whole tick, and a machine without a
	// processor for this process makes a tick long.
	if least := ttl - 2*time.Millisecond - late; atMost < least {
		t.Errorf("expired after %v, want at least %v", atMost, least)
	}
	if most := ttl + 100*time.Millisecond + late; atLeast > most {
		t.Errorf("expired after %v, want at most %v", atLeast, most)
	}
}

// expiry returns for how long a key with a TTL is there: at most from the call that
// sets it, and at least from its answer.
func expiry(t *testing.T, c rueidis.Client, ttl time.Duration) (atMost, atLeast time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	asked := time.Now()
	if err := c.Do(ctx, c.B().Set().Key("k").Value("v").Px(ttl).Build()).Error(); err != nil {
		t.Error(err)
		return ttl, ttl
	}
	answered := time.Now()
	for {
		n, err := c.Do(ctx, c.B().Exists().Key("k").Build()).AsInt64()
		if err != nil {
			t.Error(err)
			return ttl, ttl
		}
		if n == 0 {
			return time.Since(asked), time.Since(answered)
		}
		time.Sleep(time.Millisecond) // expiry by time alone is what is measured
	}
}

func TestScriptsSeeTheClock(t *testing.T) {
	_, c := startWithClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()

	v, err := c.Do(ctx, c.B().Eval().Script("return redis.call('TIME')").Numkeys(0).Build()).AsIntSlice()
	if err != nil {
		t.Fatal(err)
	}
	got := time.Unix(v[0], v[1]*1000)
	if d := time.Since(got).Abs(); d > time.Second {
		t.Fatalf("TIME in a script is %v away from the clock", d)
	}
}

func TestCloseTwice(t *testing.T) {
	s, err := StartStandIn()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
}
