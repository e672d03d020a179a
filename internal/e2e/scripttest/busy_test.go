package scripttest

import (
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// A try that does not wait names the holder of a busy lock. It reads the registration of the
// holder with calls of their own, but only once: the next busy try of any lock is one call.
func TestBusyTryNamesTheHolder(t *testing.T) {
	server, holder := startStore(t, nil)
	for i, c := range []struct {
		kind    string
		lookUps int64
	}{{"mutex", 1}, {"mutex", 1}, {"fair", 1}, {"write", 1}, {"permit", 2}} {
		kind := c.kind
		held := kindClaim(kind, "stock:"+kind, "1")
		mustTry(t, holder, held)
		b := redishold.New(connect(t, server.Addr(), "", ""), nil)
		other := kindClaim(kind, "warm:"+kind, "2")
		other.Client = "00000000-2746-4f0e-9d4a-0f6f0b7f2c11"
		other.Owner, other.NoQueue = other.Client+":2", true
		mustTry(t, b, other) // proves rights and registers
		other.Name = held.Name
		for _, want := range []int64{1 + c.lookUps, 1} {
			before := scriptCalls(server)
			o := mustTry(t, b, other)
			if o.Granted || o.Holder != "ci@host:4121" {
				t.Errorf("%s: got %+v, want busy, held by ci@host:4121", kind, o)
			}
			if got := scriptCalls(server) - before; i > 0 && got != want { // the first case loads the scripts
				t.Errorf("%s: %d script calls, want %d", kind, got, want)
			}
		}
	}
}

// A grant of a semaphore says how many permits there are, where the claim has
// another number.
func TestGrantSaysHowManyPermits(t *testing.T) {
	_, b := startStore(t, nil)
	got := map[string]int{}
	for number, permits := range map[string]int{"1": 5, "2": 5, "3": 3, "4": 9} {
		if number != "1" {
			mustTry(t, b, permitOf("1", 5))
		}
		got[number] = mustGrant(t, b, permitOf(number, permits)).Permits
	}
	if want := map[string]int{"1": 0, "2": 0, "3": 5, "4": 5}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func kindClaim(kind, name, number string) driver.Claim {
	c := claim(name, number)
	switch kind {
	case "fair":
		c.Fair = true
	case "write":
		c.ReadWrite = true
	case "read":
		c.ReadWrite, c.Mode = true, driver.Shared
	case "permit":
		c.Mode, c.Permits = driver.Permit, 1
	}
	return c
}

func permitOf(number string, permits int) driver.Claim {
	c := kindClaim("permit", "pool", number)
	c.Permits = permits
	return c
}

// scriptCalls is how many scripts the server was asked to run.
func scriptCalls(server *redistest.Server) int64 {
	stats := server.CommandStats()
	return stats["eval"] + stats["evalsha"]
}
