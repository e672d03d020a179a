package clients

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

// A try that finds the lock busy says its holder, without a round trip of its own.
// A single server looks that up in the same call, if the holder is not known yet. In
// a cluster the holder's registration may lie on another node, whose trouble must
// not become the lock's: it is read in the background, and the next try knows it.

// Said is what introduce.lua adds to the answer of a try.
type HolderInfo struct {
	RegistrationText
	Client string // of a permit: who is registered for it, "" if nobody is
}

// Holder says for people who has lock, which a try in some mode found busy, and for how
// long. What is not known yet is asked for in the background. The reply to a permit has
// its id for the owner.
func (s *Clients) Holder(lock string, mode driver.Mode, owner string, info *HolderInfo) (who string, held time.Duration) {
	if mode == driver.Permit && owner != "" {
		holder, known := s.permitHolder(owner, info)
		if owner = holder; holder == "" {
			if known {
				s.directory.rememberHolder(lock)
			}
			return "", 0
		}
	}
	uuid, ok := s.clientOfOwner(owner)
	if !ok {
		return Printable(owner), 0
	}
	client, known := s.directory.get(uuid)
	fresh := client.fresh(knownFor)
	if info != nil && !fresh { // of many locks each may say the same
		client, known, fresh = s.directory.put(uuid, s.parse(uuid, info.RegistrationText)), true, true
	}
	if known {
		s.directory.rememberHolder(lock)
	}
	if !fresh {
		s.directory.inBackground(uuid, func(ctx context.Context) { s.lookUpClient(ctx, uuid) })
	}
	return s.describe(owner, client, known)
}

// holderOf returns the owner of a permit, "" if nobody is registered for it, or if
// that is not known yet. Then it is asked for in the background.
func (s *Clients) permitHolder(id string, info *HolderInfo) (owner string, known bool) {
	stem, number, ok := layout.CutPermit(id)
	if !ok {
		return "", true
	}
	if info != nil {
		s.directory.put(stem, s.parse(stem, RegistrationText{Text: info.Client}))
	}
	client, known := s.directory.get(stem)
	if !client.fresh(unknownFor) {
		s.directory.inBackground(stem, func(ctx context.Context) {
			if known, _ := s.lookUpClient(ctx, stem); known.client.ID != "" {
				s.lookUpClient(ctx, known.client.ID)
			}
		})
	}
	if client.client.ID == "" {
		return "", known
	}
	return client.client.ID + ":" + number, true
}

// lookUpClient asks who a client is, or whose a stem is.
func (s *Clients) lookUpClient(ctx context.Context, id string) (known knownClient, ok bool) {
	found, _ := s.lookUp(ctx, false, map[string]lookup{id: {}})
	known, ok = found[id]
	return known, ok
}

// Person says for people who owner is. It asks the server at most once in a
// while, and a failure costs only the name.
func (s *Clients) DescribeOwner(ctx context.Context, owner string) string {
	uuid, ok := s.clientOfOwner(owner)
	if !ok {
		return Printable(owner)
	}
	client, known := s.directory.get(uuid)
	if !client.fresh(knownFor) {
		if read, ok := s.lookUpClient(ctx, uuid); ok {
			client, known = read, true
		}
	}
	who, _ := s.describe(owner, client, known)
	return who
}

// IsHoldfast reports that the client of owner is known to be one of Holdfast's.
func (s *Clients) IsHoldfast(owner string) bool {
	uuid, _, _ := layout.CutOwner(owner)
	client, _ := s.directory.get(uuid)
	return client.registered()
}

// clientIn returns the client in owner, if it can be one of Holdfast's or
// Redisson's.
func (s *Clients) clientOfOwner(owner string) (uuid string, ok bool) {
	uuid, _, ok = layout.CutOwner(strings.TrimSuffix(owner, layout.WriteField))
	return uuid, ok && (s.Layout.Name == "" || layout.IsUUID(uuid))
}

// Identify puts owners in place of the ids of permits, as far as clients are
// registered for them, and returns how many commands that took.
func (s *Clients) Identify(ctx context.Context, cluster bool, records []admin.Record) (spent int) {
	stems := map[string]lookup{}
	eachPermit(records, func(_ *admin.Hold, stem, _ string) { stems[stem] = lookup{} })
	uuids, spent := s.lookUp(ctx, cluster, stems)
	eachPermit(records, func(h *admin.Hold, stem, number string) {
		if uuid := uuids[stem].client.ID; uuid != "" {
			h.Owner = uuid + ":" + number
		}
	})
	return spent
}

// Introduce fills in who the owners in records are, and returns how many commands that
// took. A failure costs only the names.
func (s *Clients) AddClients(ctx context.Context, cluster bool, records []admin.Record) (spent int) {
	spent = s.Identify(ctx, cluster, records)
	asked := map[string]lookup{}
	ask := func(name, owner string, owners ...string) {
		if uuid := layout.ClientOf(owner); uuid != "" {
			asked[uuid] = lookup{name, append(asked[uuid].owners, owners...)}
		}
	}
	for _, r := range records {
		for _, h := range r.Holds {
			ask(r.Name, h.Owner, strings.TrimSuffix(h.Owner, layout.WriteField))
		}
		for _, w := range r.Waiters {
			ask(r.Name, w.Owner)
		}
	}
	clients, more := s.lookUp(ctx, cluster, asked)
	for _, r := range records {
		for j := range r.Holds {
			h := &r.Holds[j]
			if h.Mode != driver.Permit || layout.ClientOf(h.Owner) != "" {
				h.Client, h.Note = s.clientOf(h.Owner, clients)
				if hold, ok := clients[h.Client.ID].holds[strings.TrimSuffix(h.Owner, layout.WriteField)]; ok {
					h.Token, h.HeldFor = hold.token, max(time.Since(hold.since), time.Millisecond)
				}
			}
		}
		for j := range r.Waiters {
			w := &r.Waiters[j]
			w.Client, w.Note = s.clientOf(w.Owner, clients)
		}
	}
	return spent + more
}

// introduce says who owner is, for programs and for people.
func (s *Clients) clientOf(owner string, clients map[string]knownClient) (admin.Client, string) {
	uuid := layout.ClientOf(owner)
	known, ok := clients[uuid]
	if !ok {
		return admin.Client{ID: uuid}, Printable(owner)
	}
	who, _ := s.describe(owner, known, true)
	return known.client, who
}

// eachPermit calls fn for each permit in records whose id may be one of Holdfast's.
func eachPermit(records []admin.Record, fn func(h *admin.Hold, stem, number string)) {
	for _, r := range records {
		for j := range r.Holds {
			id, _ := layout.ShownPermit(r.Holds[j].Owner)
			if stem, number, ok := layout.CutPermit(id); ok && r.Holds[j].Mode == driver.Permit {
				fn(&r.Holds[j], stem, number)
			}
		}
	}
}
