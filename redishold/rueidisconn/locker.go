package rueidisconn

import (
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redishold"
)

// Locker returns a Locker for the servers of client, with the layout of Redisson and the default
// options of package redishold. The Logger of opts also gets the warnings of the store. opts may
// be nil. The caller closes client after the last use of the Locker.
//
// For another layout, a key prefix, a quorum, or several Lockers over one client, use the long
// form: holdfast.New(redishold.New(rueidisconn.New(client), storeOptions), opts).
func Locker(client rueidis.Client, opts *holdfast.Options) *holdfast.Locker {
	store := &redishold.Options{}
	if opts != nil {
		store.Logger = opts.Logger
	}
	return holdfast.New(redishold.New(New(client), store), opts)
}
