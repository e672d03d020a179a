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
)

// prober is what has a probe: a form, or anything else with scripts of its own.
//
// Its probe script tries every command of its scripts on scratch keys, leaves
// nothing behind, and takes and answers the same as probe.lua: KEYS are those of
// scratchKeys, ARGV the scratch channel and the commands to publish with. What
// probe.lua tries has passed before, so another probe may leave that out.
type prober interface {
	probe() *Script
	channel(p place, c driver.Claim) string
}

// probe is the probe that all kinds share.
func (f rlock) probe() *Script { return f.scripts.probe }

// scratchKeys are those of a claim of f's kind on scratch. The counter is shared by all
// locks of its slot, so another key in that slot stands for it.
func scratchKeys(f prober, scratch place) []string {
	lock, ok := f.(form)
	if !ok {
		return []string{scratch.lock, f.(counter).call(scratch, "probe")}
	}
	scratch.counter += ":holdfast-probe:" + rand.Text()
	return lock.acquire(room{}, scratch, driver.Claim{Owner: "probe", Mode: driver.Shared}, "", nil).Keys
}

// ready returns where the lock called name lives and what the server is, or why
// it cannot keep that lock. Before the first lock of f's kind it proves that the
// user may run every command of every script. Its errors come before anything
// was sent for the claim.
func (b *Backend) ready(ctx context.Context, name string, f prober) (place, ServerInfo, error) {
	if name == "" {
		return place{}, ServerInfo{}, refused("a lock needs a name: it is empty")
	}
	if err := cmp.Or(b.invalid, b.unsupported(f)); err != nil {
		return place{}, ServerInfo{}, err
	}
	p := b.layout.place(name)
	if p.refusal != nil {
		return place{}, ServerInfo{}, p.refusal
	}
	info, err := b.probed(ctx, p, f)
	if err != nil {
		return place{}, ServerInfo{}, notTried(err)
	}
	if info.Cluster {
		if err := placeable(p); err != nil {
			return place{}, ServerInfo{}, refused("redis cannot place %q: %w", p.lock, err)
		}
	}
	return p, info, nil
}

// probed returns what the server is once f's probe has passed. Only a pass is
// remembered: after a failure somebody may grant what was missing.
func (b *Backend) probed(ctx context.Context, p place, f prober) (ServerInfo, error) {
	if b.server.passed(f.probe()) {
		return b.ask(ctx)
	}
	if err := b.server.enter(ctx); err != nil {
		return ServerInfo{}, err
	}
	defer b.server.leave()

	info, err := b.askAlone(ctx)
	if err != nil || b.server.passed(f.probe()) {
		return info, err
	}
	if info.tooOld() {
		b.server.known.Store(nil) // ask again: it may be upgraded under a running program
		return ServerInfo{}, refused("redis %s is too old: holdfast needs 6.2 or newer", info.Version)
	}
	if info.Cluster && placeable(p) != nil {
		return info, nil // the caller refuses the name; another one will be probed
	}
	if err := b.proveReplicas(ctx, p); err != nil {
		return ServerInfo{}, err
	}
	if err := b.prove(ctx, p, info, f); err != nil {
		return ServerInfo{}, err
	}
	return info, nil
}

// prove runs all probes of f that have not passed yet: who has to grant what is
// missing wants to hear of it at once.
func (b *Backend) prove(ctx context.Context, p place, info ServerInfo, f prober) error {
	var missing []probeRefusal
	var run *Script
	all := []prober{f}
	if b.own == nil {
		all = []prober{b.rlock(), f}
	}
	for _, f := range all {
		if b.server.passed(f.probe()) || f.probe() == run {
			continue
		}
		run = f.probe()
		refusals, err := b.probe(ctx, p, info, f)
		switch {
		case err != nil && missing != nil:
			return b.judge(p, missing) // this one may fail for the same reason
		case err != nil:
			return err
		case b.judge(p, refusals) == nil:
			b.server.pass(f.probe())
		default:
			missing = append(missing, refusals...)
		}
	}
	return b.judge(p, missing)
}

// probe runs f's probe beside the lock p, on scratch keys in its name space, and
// returns what was refused.
func (b *Backend) probe(ctx context.Context, p place, info ServerInfo, f prober) ([]probeRefusal, error) {
	scratch := b.layout.place(p.name + ":holdfast-probe:" + rand.Text())
	keys := scratchKeys(f, scratch)
	channel := f.channel(scratch, driver.Claim{Owner: "probe"})
	call := Call{Script: f.probe(), Keys: keys, Args: append([]string{channel}, info.publishWith()...)}
	value, err := b.call(ctx, call)
	var refusals []probeRefusal
	for _, command := range []string{"EVALSHA", "EVAL"} {
		var reply *ReplyError
		if !errors.As(err, &reply) || !lacks(reply.Text, command) {
			break
		}
		refusals = append(refusals, probeRefusal{command, channel, reply.Text})
		if call.Source {
			return refusals, nil
		}
		call.Source = true // what is in the script can still be tried
		value, err = b.call(ctx, call)
	}
	if err != nil && refusals != nil {
		return refusals, nil
	}
	if err != nil {
		return nil, b.nameKeys(ctx, p, keys, err)
	}
	inside, err := parseProbe(value)
	for i := range inside {
		inside[i].channel = channel
	}
	return append(refusals, inside...), err
}

// lacks reports that a server's error says that the user may not run command, which
// was not inside a script.
func lacks(text, command string) bool {
	return meaningOf(text) == meansNoRight && strings.Contains(text, "'"+strings.ToLower(command)+"'")
}

// nameKeys finds out which of the probe's keys the user has no access to, if it
// is that what the server refused: it does not say.
func (b *Backend) nameKeys(ctx context.Context, p place, keys []string, err error) error {
	var reply *ReplyError
	if !errors.As(err, &reply) || meaningOf(reply.Text) != meansNoRight || !strings.Contains(reply.Text, "key") {
		return b.classify(p, err)
	}
	var missing []string
	for i, key := range keys {
		_, err := b.call(ctx, Call{Script: b.scripts.client, Keys: keys[i : i+1]})
		if errors.As(err, &reply) && meaningOf(reply.Text) == meansNoRight {
			missing = appendNew(missing, "~"+b.layout.pattern(p, key))
		}
	}
	if missing == nil {
		return b.classify(p, err)
	}
	return ungranted(fmt.Sprintf("redis refuses %q", p.name), reply, missing...)
}

// judge turns what the probe was refused into an error.
func (b *Backend) judge(p place, refusals []probeRefusal) error {
	var commands, rules []string
	var cause *ReplyError
	for _, r := range refusals {
		reply := &ReplyError{Text: r.words}
		switch meaning := meaningOf(r.words); {
		case isPublish(r.command) && isUnknownCommand(r.words):
			b.warnMute(r.words)
			continue
		case meaning != meansNoRight && meaning != meansNoRightInside && meaning != meansUnknown:
			return notTried(b.classify(p, reply)) // no matter of rights: a replica, a full disk
		}
		if cause == nil {
			cause = reply
		}
		commands = appendNew(commands, strings.ToLower(r.command))
		rules = appendNew(rules, b.grants(p, r.channel, r.command, r.words))
	}
	if cause == nil {
		return nil
	}
	return ungranted(fmt.Sprintf("redis refuses %s for %q", strings.Join(commands, ", "), p.name), cause, rules...)
}

func isPublish(command string) bool { return command == "PUBLISH" || command == "SPUBLISH" }

// isUnknownCommand reports that the server does not have the command at all.
func isUnknownCommand(words string) bool {
	return strings.Contains(words, "Unknown Redis command") || strings.Contains(words, "unknown command")
}

// appendNew appends s unless the list has it.
func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
