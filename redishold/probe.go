package redishold

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/scripts"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// scratchKeys returns the keys that a claim of the given kind uses for the lock `scratch`. It
// replaces the key of the token counter by an unused key of the same slot, because the probe
// must not change a counter that belongs to all locks of its slot.
func scratchKeys(kind kinds.Kind, scratch layout.Keys) []string {
	lock, ok := kind.(kinds.Form)
	if !ok {
		return []string{scratch.Lock, kind.(kinds.Counter).CallKey(scratch, "probe")}
	}
	scratch.Counter += ":holdfast-probe:" + rand.Text()
	return lock.Acquire(kinds.Buffers{}, scratch, driver.Claim{Owner: "probe", Mode: driver.Shared}, nil).Keys
}

// ready returns the keys of the lock called name, and the properties of the server. It returns
// an error if the store cannot have that lock. Before the first lock of the given kind, it
// checks that the user may run every command of every script that the kind needs. If ready
// returns an error, nothing was sent for the claim.
func (b *Backend) ready(ctx context.Context, name string, kind kinds.Kind) (layout.Keys, ServerInfo, error) {
	if name == "" {
		return layout.Keys{}, ServerInfo{}, wire.Refused("a lock needs a name: it is empty")
	}
	if err := cmp.Or(b.invalid, b.unsupported(kind)); err != nil {
		return layout.Keys{}, ServerInfo{}, err
	}
	k := b.layout.Keys(name)
	if k.NameErr != nil {
		return layout.Keys{}, ServerInfo{}, k.NameErr
	}
	info, err := b.probed(ctx, k, kind)
	if err != nil {
		return layout.Keys{}, ServerInfo{}, wire.NotTried(err)
	}
	if err := slotError(info, k, kind); err != nil {
		return layout.Keys{}, ServerInfo{}, wire.Refused("redis cannot place %q: %w", k.Lock, err)
	}
	return k, info, nil
}

// slotError returns an error if the server is a node of a cluster, and the keys of a lock of
// the given kind would be in different slots.
func slotError(info ServerInfo, k layout.Keys, kind kinds.Kind) error {
	if !info.Cluster {
		return nil
	}
	// The channel of a latch has a pair of braces of its own around the name. If the name has
	// braces, too, the channel and the latch are in different slots. Redisson cannot have such
	// a latch either.
	if c, ok := kind.(kinds.Counter); ok && layout.SlotOf(c.At(k)) != layout.SlotOf(k.Lock) {
		return errors.New("in a cluster the name of a latch must not have braces")
	}
	return layout.CheckSlots(k)
}

// probed runs the probe for the given kind, if that probe has not passed before, and returns
// the properties of the server. It does not remember a failure, because an operator may grant
// the missing permissions later.
func (b *Backend) probed(ctx context.Context, k layout.Keys, kind kinds.Kind) (ServerInfo, error) {
	if b.server.passed(kind.Family()) {
		return b.ask(ctx)
	}
	if err := b.server.enter(ctx); err != nil {
		return ServerInfo{}, err
	}
	defer b.server.leave()

	info, err := b.askEntered(ctx)
	if err != nil || b.server.passed(kind.Family()) {
		return info, err
	}
	if tooOld(info) {
		b.server.known.Store(nil) // the next call reads the version again, because the server may be upgraded while the program runs
		return ServerInfo{}, wire.Unsuitable("redis %s is too old: holdfast needs 6.2 or newer", info.Version)
	}
	if slotError(info, k, kind) != nil {
		return info, nil // the caller refuses this name, and the probe is made with the next name
	}
	if err := b.proveReplicas(ctx, k); err != nil {
		return ServerInfo{}, err
	}
	if err := b.probe(ctx, k, info, kind); err != nil {
		return ServerInfo{}, err
	}
	b.server.pass(kind.Family())
	return info, nil
}

// tooOld reports whether a server is older than Redis 6.2. It returns false for an unknown
// version.
func tooOld(i ServerInfo) bool {
	var major, minor int
	_, err := fmt.Sscanf(i.Version, "%d.%d", &major, &minor)
	return err == nil && (major < 6 || major == 6 && minor < 2)
}

// probe makes the server try every command of every script that a claim of the given kind may
// need, on scratch keys whose names begin with the name of the lock. It gets the commands from
// the text of the scripts, so that no command is missing. docs/adr/0019 explains why probe does
// not run the scripts themselves. The error names all missing permissions.
func (b *Backend) probe(ctx context.Context, k layout.Keys, info ServerInfo, kind kinds.Kind) error {
	families := []string{kind.Family()}
	if b.forms.only == nil {
		families = append(families, "") // the scripts without a family, some of which every kind needs
	}
	scratch := b.layout.Keys(k.Name + ":holdfast-probe:" + rand.Text())
	keys := scratchKeys(kind, scratch)
	channel := kind.Channel(scratch, driver.Claim{Owner: "probe"})
	args := append([]string{channel}, b.publishWith(info)...)
	call := wire.Call{Script: b.library.Get("probe"), Keys: keys, Args: append(args, scripts.Commands(families...)...)}
	value, err := b.call(ctx, call)
	var refusals []probeRefusal
	for _, command := range []string{"EVALSHA", "EVAL"} {
		words := wire.ReplyText(err)
		if !lacks(words, command) {
			break
		}
		refusals = append(refusals, probeRefusal{command, words})
		if call.Source {
			break
		}
		call.Source = true // to try EVAL, and with it the commands inside the script
		value, err = b.call(ctx, call)
	}
	switch {
	case err == nil:
		inside, err := parseProbe(value)
		if err != nil {
			return err
		}
		refusals = append(refusals, inside...)
	case refusals == nil:
		return b.nameKeys(ctx, k, keys, err)
	}
	return b.judge(k, channel, refusals)
}

// lacks reports whether an error reply, `text`, means that the user may not send the command.
// It returns false for a command that was refused inside a script.
func lacks(text, command string) bool {
	return wire.MeaningOf(text) == wire.MeansNoRight && strings.Contains(text, "'"+strings.ToLower(command)+"'")
}

// nameKeys returns the error for a refused probe. If the server refused access to a key, its
// reply does not name the key, so nameKeys tries each key alone.
func (b *Backend) nameKeys(ctx context.Context, k layout.Keys, keys []string, err error) error {
	words := wire.ReplyText(err)
	if !wire.Means(err, wire.MeansNoRight) || !strings.Contains(words, "key") {
		return b.layout.Classify(k, err)
	}
	var missing []string
	for i, key := range keys {
		_, err := b.call(ctx, wire.Call{Script: b.library.Get("client"), Keys: keys[i : i+1]})
		if wire.Means(err, wire.MeansNoRight) {
			missing = appendNew(missing, "~"+b.layout.KeyPattern(k, key))
		}
	}
	if missing == nil {
		return b.layout.Classify(k, err)
	}
	return wire.Ungranted(fmt.Sprintf("redis refuses %q", k.Name), words, missing...)
}

// judge returns the error for the refusals of a probe. It returns nil if there are no refusals,
// or if the server only lacks a publish command: in that case waiters learn of releases later.
func (b *Backend) judge(k layout.Keys, channel string, refusals []probeRefusal) error {
	var commands, lacked, rules []string
	var cause, lack string // the error replies for commands[0] and for lacked[0]
	for _, r := range refusals {
		command := strings.ToLower(r.command)
		switch meaning := wire.MeaningOf(r.words); {
		case strings.HasSuffix(r.command, "PUBLISH") && meaning == wire.MeansNoCommand:
			b.warnCannotPublish(r.words)
			continue
		case meaning == wire.MeansNoCommand:
			lack, lacked = cmp.Or(lack, r.words), appendNew(lacked, command)
			continue
		case meaning != wire.MeansNoRight && meaning != wire.MeansNoRightInside && meaning != wire.MeansUnknown:
			return wire.NotTried(b.layout.Classify(k, &ReplyError{Text: r.words})) // not about permissions: for example, the server is a replica, or its disk is full
		}
		cause, commands = cmp.Or(cause, r.words), appendNew(commands, command)
		rules = appendNew(rules, b.layout.Grants(k, channel, r.command, r.words))
	}
	does := func(commands []string) string {
		return fmt.Sprintf("redis refuses %s for %q", strings.Join(commands, ", "), k.Name)
	}
	switch {
	case lacked != nil:
		return wire.Lacking(does(lacked), lack)
	case commands != nil:
		return wire.Ungranted(does(commands), cause, rules...)
	}
	return nil
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
