package clients

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

// A try that finds the lock busy returns the holder without another round trip. On a single
// server the script of the try also reads the registration of the holder, if this process does
// not know it yet. In a cluster the registration may be on another node, and a failure of that
// node must not delay the lock. So this process reads the registration in the background, and
// the next try uses it.

// HolderInfo is the element that introduce.lua or semaphore_acquire.lua adds to a busy reply.
type HolderInfo struct {
	RegistrationText
	Client string // for a permit: the UUID of its client, "" if no client is registered for it
}

// Holder returns the text that names the holder of a busy lock to operators. The result `held`
// is how long the holder has held the lock, or 0 if that is unknown. The parameter `mode` is the
// mode of the try. In the mode Permit, `owner` is a permit id. If the holder is not known yet,
// Holder looks it up in the background.
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
	if info != nil && !fresh { // only if not fresh: the replies of many locks may have the same registration
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

// permitHolder returns the owner of the permit with the given id. The result `owner` is "" if no
// client is registered for the permit, or if the client was not looked up yet. In the second
// case the result `known` is false. If the directory has no fresh entry for the client,
// permitHolder looks the client up in the background.
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

// lookUpClient returns the client with the given id, which is a UUID or a stem. The result `ok`
// is false if the look-up failed.
func (s *Clients) lookUpClient(ctx context.Context, id string) (known knownClient, ok bool) {
	found, _ := s.lookUp(ctx, false, map[string]lookup{id: {}})
	known, ok = found[id]
	return known, ok
}

// DescribeOwner returns the text that names an owner to operators. If the directory has no fresh
// entry for the client of the owner, DescribeOwner asks the server. If the server does not
// answer, the text has only the UUID of the client.
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

// IsHoldfast reports whether the directory has the client of `owner`, with a registration.
func (s *Clients) IsHoldfast(owner string) bool {
	uuid, _, _ := layout.CutOwner(owner)
	client, _ := s.directory.get(uuid)
	return client.registered()
}

// clientOfOwner returns the first part of `owner`, the UUID of the client. The result `ok` is
// false if `owner` is not the owner of a claim of Holdfast or of a lock of Redisson.
func (s *Clients) clientOfOwner(owner string) (uuid string, ok bool) {
	uuid, _, ok = layout.CutOwner(strings.TrimSuffix(owner, layout.WriteField))
	return uuid, ok && (s.Layout.Name == "" || layout.IsUUID(uuid))
}

// Identify replaces each permit id in `records` with the owner of the permit, if a client is
// registered for the permit. It returns the number of commands that it sent.
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

// AddClients adds to `records` the client of each owner, the text that names this owner, and the
// token and the age of each hold. It returns the number of commands that it sent. A field whose
// value it could not read stays empty.
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

// clientOf returns the client of `owner`, and the text that names this owner.
func (s *Clients) clientOf(owner string, clients map[string]knownClient) (admin.Client, string) {
	uuid := layout.ClientOf(owner)
	known, ok := clients[uuid]
	if !ok {
		return admin.Client{ID: uuid}, Printable(owner)
	}
	who, _ := s.describe(owner, known, true)
	return known.client, who
}

// eachPermit calls `fn` for each permit in `records`, if the id of this permit has a stem.
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
