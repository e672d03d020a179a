package redishold

import "github.com/holdfast-go/holdfast/driver"

// isRegistered reports that c's client need not be registered now, in any way.
func (b *Backend) isRegistered(c driver.Claim) bool {
	return b.clients.isWritten(c) && (c.Mode != driver.Permit || b.holders.isWritten(c))
}

// addHolders adds the calls that register clients which take permits under their
// stems, so that the ids of their permits lead to them.
func (b *Backend) addHolders(calls []Call, uuids []string, cs []driver.Claim) ([]Call, []string) {
	for _, c := range cs {
		if b.own != nil || unnamed(c) || c.Mode != driver.Permit || b.holders.isWritten(c) {
			continue
		}
		ttl, ok := b.holders.due(c)
		if !ok || !hasStem(c.Client) {
			continue
		}
		uuids = append(uuids, c.Client)
		calls = append(calls, Call{
			Script: b.scripts.register,
			Keys:   []string{b.layout.client(stemOf(c.Client))},
			Args:   []string{c.Client, ms(ttl)},
		})
	}
	return calls, uuids
}
