package etcdhold

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
)

// Locker returns a Locker over client. The TTL of opts is also that of the lease in etcd, so it is
// rounded up to whole seconds. opts may be nil. The caller closes client after the last use of
// the Locker.
//
// For a lease that is longer than the TTL of the Locker, use the long form:
// holdfast.New(etcdhold.New(client, storeOptions), opts).
func Locker(client *clientv3.Client, opts *holdfast.Options) *holdfast.Locker {
	store := &Options{}
	if opts != nil {
		store.TTL = opts.TTL
	}
	return holdfast.New(New(client, store), opts)
}
