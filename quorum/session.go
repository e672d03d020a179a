package quorum

import "fmt"

// A member with Info.SessionTTL keeps all claims of a client for as long as any of them is
// renewed. So the quorum has that SessionTTL, too: then the core releases every claim that
// ends, and its leases are as long as the sessions.

// sessions says what keeps the sessions of the members from being those of the quorum.
func (b *Backend) sessions() error {
	session := b.info.SessionTTL
	if session == 0 {
		return nil
	}
	for _, n := range b.nodes {
		if info := n.member.Info(); info.SessionTTL > 0 && info.SessionTTL != session {
			return fmt.Errorf("sessions of %v (%s) and of %v (%s): they must be equally long", session, b.info.SessionOption, info.SessionTTL, info.SessionOption)
		}
	}
	switch {
	case session > b.info.MaxTTL:
		return fmt.Errorf("sessions of %v (%s) are longer than MaxTTL, %v", session, b.info.SessionOption, b.info.MaxTTL)
	case session < b.info.MinTTL:
		return fmt.Errorf("sessions of %v (%s) are shorter than a lease of %v, the shortest of another member", session, b.info.SessionOption, b.info.MinTTL)
	}
	return nil
}
