package standin_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/standin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) (*standin.Server, rueidis.Client) {
	t.Helper()
	s, err := standin.Start()
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
	_, c := start(t)
	const ttl = 300 * time.Millisecond
	quickest := time.Hour // a machine without a processor for us makes one late, not all
	for tries := 0; tries < 5 && quickest > ttl+100*time.Millisecond; tries++ {
		quickest = min(quickest, expiry(t, c, ttl))
	}
	if most := ttl + 100*time.Millisecond; quickest > most {
		t.Errorf("expired after %v, want at most %v", quickest, most)
	}
}

// expiry returns for how long a key with a TTL is there after it was set.
func expiry(t *testing.T, c rueidis.Client, ttl time.Duration) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	asked := time.Now()
	if err := c.Do(ctx, c.B().Set().Key("k").Value("v").Px(ttl).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	answered := time.Now()
	for {
		n, err := c.Do(ctx, c.B().Exists().Key("k").Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		time.Sleep(time.Millisecond) // expiry by time alone is what is measured
	}
	// One tick of tolerance below: a key set between two ticks is charged the
	// whole tick.
	if got, least := time.Since(asked), ttl-2*time.Millisecond; got < least {
		t.Errorf("expired after %v, want at least %v", got, least)
	}
	return time.Since(answered)
}

func TestScriptsSeeTheClock(t *testing.T) {
	_, c := start(t)
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
	s, err := standin.Start()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
}
