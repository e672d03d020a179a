package dial

import "go.uber.org/goleak"

// Sleepers are goroutines that a closed client of rueidis or go-redis may leave for
// some seconds: they sleep before they see that there is nothing to refresh, to
// close or to dial, and nothing reports when they have. Tests that look for leaks pass
// over them. go-redis dials a server that refuses five times, with 100 ms in between,
// which is about as long as goleak waits, or once a second.
func Sleepers() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*mux)._pipe"), // dials a lost server until Dialer.Timeout
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).dialConn"),
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
	}
}
