package scripttest

import (
	"slices"
	"strings"
	"testing"
)

// The kinds of lock by their scripts. What all of them do alike is asked of each in
// lifecycle_test.go; what only one does has a test beside its kind.

// script is a call of a script with what it takes.
type script struct {
	name string
	keys []string
	args []any
}

// kind is a kind of lock: the calls of its scripts for an owner.
type kind struct {
	name string
	lock string
	// field is what a busy acquire calls the holder; where counted, the number of its
	// holds stands under that name in the lock.
	field   func(owner string) string
	counted bool
	mends   bool     // an acquire by its owner gives a lock without a TTL one again
	heard   []string // what is published when the hold ends
	channel string
	stays   []string // the keys that a release leaves
	rival   string   // another kind, if only that keeps an owner out
	rounds  int64    // for how many ms more than a lease a busy acquire may say
	probed  string   // scripts whose commands the probe tries on a full server

	mark             func(owner string) string
	lease            func(b *bench, owner string) int64 // what is left of it, in ms
	acquire, renew   func(owner string, ttl, holds int) script
	release, abandon func(owner string) script
	force            func(owner string, holds int) script // nil: that of another kind
}

func kinds() []kind {
	return []kind{mutexKind(), fairKind(), readerKind(), writerKind(), permitKind(), plainKind(), stampKind()}
}

func kindOf(t testing.TB, name string) kind {
	t.Helper()
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
	if i < 0 {
		t.Fatalf("there is no kind %q", name)
	}
	return all[i]
}

func itself(owner string) string { return owner }

// leaseOf returns what is left of a key, as the lease of each owner.
func leaseOf(key string) func(*bench, string) int64 {
	return func(b *bench, _ string) int64 { return b.Int("PTTL", key) }
}

func mutexKind() kind {
	return kind{
		name: "mutex", lock: lockKey, field: itself, counted: true, mends: true, probed: "acquire abandon explain",
		heard: []string{"0"}, channel: channel, stays: []string{counterKey},
		mark: fairMark, lease: leaseOf(lockKey),
		acquire: func(owner string, ttl, holds int) script {
			return script{"acquire", []string{lockKey, fairMark(owner), counterKey}, []any{owner, ttl, holds, 3}}
		},
		renew: func(owner string, ttl, holds int) script {
			return script{"renew", []string{lockKey}, []any{owner, ttl, holds}}
		},
		release: func(owner string) script {
			return script{"release", []string{lockKey}, []any{owner, channel, "PUBLISH"}}
		},
		abandon: func(owner string) script {
			return script{"abandon", []string{lockKey, fairMark(owner)}, []any{owner, 20000, channel, "PUBLISH"}}
		},
		force: func(owner string, holds int) script {
			return script{"force", []string{lockKey, fairMark(owner)}, []any{owner, holds, "ops", 20000, channel, "PUBLISH"}}
		},
	}
}

// fairKind has claims that do not wait: they leave no place in the queue.
func fairKind() kind {
	k := mutexKind()
	k.name, k.heard, k.force, k.probed = "fair", nil, nil, "fair_acquire fair_release"
	k.acquire = func(owner string, ttl, holds int) script {
		return script{"fair_acquire", fairKeys(owner), []any{owner, ttl, holds, 3, -presence, silence, channel + ":", "PUBLISH"}}
	}
	k.release = func(owner string) script {
		return script{"fair_release", fairReleaseKeys, []any{owner, 0, channel + ":", 0, "PUBLISH"}}
	}
	k.abandon = func(owner string) script {
		return script{"fair_release", append(slices.Clone(fairReleaseKeys), fairMark(owner)), []any{owner, 20000, channel + ":", 0, "PUBLISH"}}
	}
	return k
}

// rwEnd is a call that ends the hold of that field; keys are those behind the lock.
func rwEnd(field string, holds, mark, ttl any, keys ...string) script {
	return script{"rw_release", append([]string{lockKey}, keys...), []any{field, rwPrefix, rwChannel, holds, mark, ttl, "PUBLISH"}}
}

func readerKind() kind {
	k := mutexKind()
	k.name, k.channel, k.mends, k.rival, k.probed = "reader", rwChannel, false, "writer", "rw_read_acquire rw_release"
	k.lease = func(b *bench, owner string) int64 { return b.Int("PTTL", timeoutKey(owner, 1)) }
	k.acquire = func(owner string, ttl, holds int) script {
		return script{"rw_read_acquire", append(rwKeys(owner), timeoutKey(owner, 1)), []any{owner, ttl, holds, 3, ""}}
	}
	k.renew = func(owner string, ttl, holds int) script {
		return script{"rw_read_renew", []string{lockKey, timeoutKey(owner, 1)}, []any{owner, ttl, holds}}
	}
	k.release = func(owner string) script { return rwEnd(owner, "", "", "", timeoutKey(owner, 1)) }
	k.abandon = func(owner string) script {
		return rwEnd(owner, "", "abandoned", 20000, timeoutKey(owner, 1), fairMark(owner))
	}
	k.force = func(owner string, holds int) script {
		return rwEnd(owner, holds, "forced: ops", 20000, timeoutKey(owner, 1), fairMark(owner))
	}
	return k
}

func writerKind() kind {
	k := mutexKind()
	k.name, k.channel, k.heard, k.probed = "writer", rwChannel, []string{"1", "0"}, "rw_write_acquire rw_release"
	k.field = func(owner string) string { return owner + ":write" }
	k.acquire = func(owner string, ttl, holds int) script {
		return script{"rw_write_acquire", rwKeys(owner), []any{owner, ttl, holds, 3, rwPrefix, "1"}}
	}
	k.renew = func(owner string, ttl, holds int) script {
		return script{"renew", []string{lockKey}, []any{owner + ":write", ttl, holds}}
	}
	k.release = func(owner string) script { return rwEnd(owner+":write", "", "", "") }
	k.abandon = func(owner string) script {
		return rwEnd(owner+":write", "", "abandoned", 20000, fairMark(owner))
	}
	k.force = func(owner string, holds int) script {
		return rwEnd(owner+":write", holds, "forced: ops", 20000, fairMark(owner))
	}
	return k
}

// permitKind is a semaphore of one permit.
func permitKind() kind {
	id := func(owner string) string { return strings.Repeat(owner[:1], 16) }
	mark := func(owner string) string { return "holdfast:gone:{jobs}:" + owner }
	return kind{
		name: "permit", lock: jobs, field: id, probed: "semaphore_acquire semaphore_release",
		heard: []string{"1"}, channel: jobsChannel, stays: []string{counterKey, jobs},
		mark: mark, lease: func(b *bench, owner string) int64 { return b.permitEnds(id(owner)) },
		acquire: func(owner string, ttl, _ int) script {
			keys := []string{jobs, jobsPermits, mark(owner), counterKey}
			return script{"semaphore_acquire", keys, []any{id(owner), ttl, 1, 3, jobsChannel, "PUBLISH"}}
		},
		renew: func(owner string, ttl, _ int) script {
			return script{"semaphore_renew", []string{jobsPermits}, []any{id(owner), ttl}}
		},
		release: func(owner string) script {
			return script{"semaphore_release", []string{jobs, jobsPermits}, []any{id(owner), jobsChannel, "PUBLISH"}}
		},
		abandon: func(owner string) script {
			return script{"semaphore_abandon", []string{jobs, jobsPermits, mark(owner)}, []any{id(owner), 20000, jobsChannel, "PUBLISH"}}
		},
		force: func(owner string, _ int) script {
			return script{"semaphore_force", []string{jobs, jobsPermits, mark(owner)}, []any{id(owner), "ops", 20000, jobsChannel, "PUBLISH"}}
		},
	}
}

// ownKind is a kind of a layout of Holdfast's own, whose scripts' names begin so. Its
// lock, and what a hold needs beside it, are keys.
func ownKind(name string, keys ...string) kind {
	end := func(step string, args ...any) script {
		return script{name + step, keys, append(args, freeChannel, "PUBLISH")}
	}
	marked := func(owner string, s script) script {
		s.keys = append(slices.Clone(s.keys), fairMark(owner))
		return s
	}
	return kind{
		name: name, lock: lockKey, field: itself, probed: name + "_acquire " + name + "_abandon",
		heard: []string{"0"}, channel: freeChannel, stays: []string{counterKey},
		mark: fairMark, lease: leaseOf(lockKey),
		acquire: func(owner string, ttl, _ int) script {
			all := append([]string{lockKey, fairMark(owner), counterKey}, keys[1:]...)
			return script{name + "_acquire", all, []any{owner, ttl, 3}}
		},
		renew: func(owner string, ttl, _ int) script {
			return script{name + "_renew", keys, []any{owner, ttl}}
		},
		release: func(owner string) script { return end("_release", owner) },
		abandon: func(owner string) script { return marked(owner, end("_abandon", owner, 20000)) },
		force:   func(owner string, _ int) script { return marked(owner, end("_force", owner, "ops", 20000)) },
	}
}

func plainKind() kind {
	k := ownKind("plain", lockKey)
	k.mends = true
	return k
}

func stampKind() kind {
	k := ownKind("timestamp", lockKey, recordKey)
	k.rounds = 1000 // it keeps whole seconds
	k.lease = func(b *bench, owner string) int64 {
		began := b.now()
		left := b.Int("PTTL", recordKey)
		b.wantStamp(owner, left, began)
		return left
	}
	return k
}
