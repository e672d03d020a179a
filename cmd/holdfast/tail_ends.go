package main

import "github.com/holdfast-go/holdfast/admin"

// mostEnds is of how many holds tail remembers how they ended.
const mostEnds = 1000

// sawEnd remembers that a hold was printed as over. Its holder may tell later that
// it has lost the lock.
func (t *tailer) sawEnd(c change) {
	if c.Event != "released" && c.Event != "expired" {
		return
	}
	if len(t.ends) >= mostEnds {
		clear(t.ends)
	}
	t.ends[admin.Ended{Name: c.Name, Owner: c.Owner}] = c.Event
}

// sameEnd says of a loss as what it was printed before, if it was.
func (t *tailer) sameEnd(c *change) {
	if !c.Reported || admin.EntryType(c.Event) != admin.EntryLost {
		return
	}
	hold := admin.Ended{Name: c.Name, Owner: c.Owner}
	c.SeenAs = t.ends[hold]
	delete(t.ends, hold)
}
