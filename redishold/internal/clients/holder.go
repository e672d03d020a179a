package clients

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

// A try that finds the lock busy returns the holder without another round trip. The registration
// of the holder is another key, whose name is only known then. So a claim that waits does not
// wait for that registration: this process reads it in the background, and the next try uses it.
// A claim that does not wait makes no next try. On a single server it reads the registration at
// once, if this process has not read it for a while. In a cluster the registration may be on
// another node, and a failure of that node must not delay the lock.

// Holder returns the text that names the holder of a busy lock to operators. The result `held`
// is how long the holder has held the lock, or 0 if that is unknown. The parameter `mode` is the
// mode of the try. In the mode Permit, `owner` is a permit id. If the directory has no fresh entry
// for the holder, Holder looks it up: now if `now` is true, otherwise in the background.
func (s *Clients) Holder(ctx context.Context, mode driver.Mode, owner string, now bool) (who string, held time.Duration) {
	if mode == driver.Permit && owner != "" {
		if owner = s.permitHolder(ctx, owner, now); owner == "" {
			return "", 0
		}
	}
	uuid, ok := s.clientOfOwner(owner)
	if !ok {
		return Printable(owner), 0
	}
	if now {
		client, known := s.current(ctx, nowTimeout, uuid)
		return s.describe(owner, client, known)
	}
	client, known := s.directory.get(uuid)
	if !client.fresh(knownFor) {
		s.directory.inBackground(uuid, func(ctx context.Context) { s.lookUpClient(ctx, InfoTimeout, uuid) })
	}
	return s.describe(owner, client, known)
}

// current returns the client with the given UUID. If the directory has no fresh entry for the
// client, current looks the client up. If that fails, or takes longer than `limit`, current
// returns the old entry; `known` is false if there is none.
func (s *Clients) current(ctx context.Context, limit time.Duration, uuid string) (client knownClient, known bool) {
	client, known = s.directory.get(uuid)
	if client.fresh(knownFor) {
		return client, known
	}
	if read, ok := s.lookUpClient(ctx, limit, uuid); ok {
		return read, true
	}
	return client, known
}

// permitHolder returns the owner of the permit with the given id, or "" if no client is
// registered for the permit, or if the client was not looked up yet. The parameter `now` is that
// of Holder.
func (s *Clients) permitHolder(ctx context.Context, id string, now bool) (owner string) {
	stem, number, ok := layout.CutPermit(id)
	if !ok {
		return ""
	}
	client, _ := s.directory.get(stem)
	switch {
	case client.fresh(unknownFor):
	case now:
		client, _ = s.lookUpClient(ctx, nowTimeout, stem)
	default:
		s.directory.inBackground(stem, func(ctx context.Context) {
			if known, _ := s.lookUpClient(ctx, InfoTimeout, stem); known.client.ID != "" {
				s.lookUpClient(ctx, InfoTimeout, known.client.ID)
			}
		})
	}
	if client.client.ID == "" {
		return ""
	}
	return client.client.ID + ":" + number
}

// lookUpClient returns the client with the given id, which is a UUID or a stem. The result `ok`
// is false if the look-up failed, or took longer than `limit`.
func (s *Clients) lookUpClient(ctx context.Context, limit time.Duration, id string) (known knownClient, ok bool) {
	found, _ := s.lookUp(ctx, limit, false, map[string]lookup{id: {}})
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
	client, known := s.current(ctx, InfoTimeout, uuid)
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
	uuids, spent := s.lookUp(ctx, InfoTimeout, cluster, stems)
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
		for _, h := range slices.Concat(r.Holds, r.Unleased) {
			ask(r.Name, h.Owner, strings.TrimSuffix(h.Owner, layout.WriteField))
		}
		for _, w := range r.Waiters {
			ask(r.Name, w.Owner)
		}
	}
	clients, more := s.lookUp(ctx, InfoTimeout, cluster, asked)
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
		for j := range r.Unleased {
			h := &r.Unleased[j]
			h.Client, h.Note = s.clientOf(h.Owner, clients)
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
