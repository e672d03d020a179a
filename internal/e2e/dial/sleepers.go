package dial

import "go.uber.org/goleak"

// Sleepers are goroutines that a closed client of rueidis may leave for some
// seconds: they sleep before they see that there is nothing to refresh or to
// close, and nothing tells when they have. Tests that look for leaks pass over
// them.
func Sleepers() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
	}
}
