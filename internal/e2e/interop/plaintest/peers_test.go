package plaintest

import (
	"regexp"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
)

// client is another library at work: a program, or a Go library in this one.
type client interface {
	Go(c peer.Command) <-chan peer.Reply
	Kill() // without a word to the server
}

// foreign is a library that Holdfast shares locks with.
type foreign struct {
	library string
	start   func(t testing.TB, url string) client

	value       *regexp.Regexp // what it writes
	rights      string         // what it needs besides those that all do
	takesValues bool           // it takes a value of the caller's
	asks        bool           // it can ask whether a lock is held
	takesNames  bool           // it locks several names at once
	strangers   bool           // it can be made to release with a value that nobody has
}

func peers() []foreign {
	return []foreign{
		{
			library: "redsync", takesValues: true, asks: true, strangers: true,
			value: regexp.MustCompile(`^[A-Za-z0-9+/]{22}==$`),
			start: func(t testing.TB, url string) client { return startInside(t, url, newRedsync) },
		},
		{
			library: "redislock", rights: "+getrange", takesValues: true, asks: true,
			value: regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`),
			start: func(t testing.TB, url string) client { return startInside(t, url, newRedislock) },
		},
		{
			library: "redis-py", rights: "+pttl +script|load", takesValues: true, asks: true, strangers: true,
			value: regexp.MustCompile(`^[0-9a-f]{32}$`),
			start: func(t testing.TB, url string) client { return peer.Start(t, python(t, url)) },
		},
		{
			library: "redlock4", rights: "+exists", takesNames: true, strangers: true,
			value: regexp.MustCompile(`^[0-9a-f]{32}$`),
			start: func(t testing.TB, url string) client { return peer.Start(t, node(t, url, "4")) },
		},
		{
			library: "redlock5", rights: "+exists", takesNames: true, strangers: true,
			value: regexp.MustCompile(`^[0-9a-f]{32}$`),
			start: func(t testing.TB, url string) client { return peer.Start(t, node(t, url, "5")) },
		},
	}
}
