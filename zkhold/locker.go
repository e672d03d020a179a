package zkhold

import "github.com/holdfast-go/holdfast"

// Locker returns a Locker over the servers of one ensemble, each "host:port" or "host", with the
// names at the root of ZooKeeper. The TTL of opts is also the timeout of the session. opts may be
// nil. It does no I/O: the first lock connects.
//
// The function `end` ends the session, and with it all locks of the Locker. Call it after the
// last use of the Locker.
//
// For a path above the names, credentials, permissions or TLS, use the long form:
// holdfast.New(zkhold.New(servers, storeOptions), opts).
func Locker(servers []string, opts *holdfast.Options) (locker *holdfast.Locker, end func()) {
	store := &Options{}
	if opts != nil {
		store.TTL = opts.TTL
	}
	backend := New(servers, store)
	return holdfast.New(backend, opts), backend.Close
}
