package scripttest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// leastRights are the commands that every kind of lock needs.
const leastRights = "+eval +evalsha +script|load +subscribe +unsubscribe +publish +info +hello +ping +client " +
	"+exists +del +pexpire +pttl +get +set +hget +hset +hdel +hexists +hlen +hkeys +hgetall +time"

// limited connects as a user who has these rights and no others.
func limited(t *testing.T, server *redistest.Server, rights string) *redishold.Backend {
	t.Helper()
	args := append([]string{"ACL", "SETUSER", "limited", "reset", "resetchannels", "on", ">secret"}, strings.Fields(rights)...)
	if err, failed := server.Do(args...).(error); failed {
		t.Fatal(err)
	}
	return redishold.New(connect(t, server.Addr(), "limited", "secret"), nil)
}

// wantRefused fails unless err says that the server refused before anything was
// done, with its words and the rights that are missing.
func wantRefused(t *testing.T, err error, rights []string) {
	t.Helper()
	var reply *redishold.ReplyError
	if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || !errors.As(err, &reply) {
		t.Fatalf("got error %v, want ErrRefused and ErrNotExecuted with the server's words", err)
	}
	for _, right := range rights {
		if !strings.Contains(err.Error(), right) {
			t.Errorf("got error %q, want it to name %q", err, right)
		}
	}
}

// wantNothingLeft fails if a probe left keys.
func wantNothingLeft(t *testing.T, server *redistest.Server) {
	t.Helper()
	if keys := server.Bind(t).Keys(); len(keys) != 0 {
		t.Errorf("the probe left %q", keys)
	}
}

// takeTurns lets one owner have the lock after the other, which waits.
func takeTurns(t *testing.T, b *redishold.Backend, first, second driver.Claim) {
	t.Helper()
	mustTry(t, b, first)
	last := mustTry(t, b, second)
	w := b.Waiter(second)
	defer w.Close()
	mustWait(t, w, last)
	mustRelease(t, b, first)
	mustGrant(t, b, second)
}

// wantProbePasses fails unless the server takes every command of some scripts on
// scratch keys.
func (b *bench) wantProbePasses(keys []string, scripts ...string) {
	b.t.Helper()
	args := append([]any{"scratch"}, publishing(b.t)...)
	for _, script := range scripts {
		for _, command := range commandsOf(b.t, script) {
			args = append(args, command)
		}
	}
	b.want(list(n(0)), "probe", keys, args...)
}

// probed is a kind of lock, and the scripts that it can come to need.
type probed struct {
	scripts string
	opts    redishold.Options
	try     func(ctx context.Context, b *redishold.Backend) error
}

func probedKinds() map[string]probed {
	try := func(c driver.Claim) func(context.Context, *redishold.Backend) error {
		return func(ctx context.Context, b *redishold.Backend) error {
			_, err := b.Try(ctx, c)
			return err
		}
	}
	fair, read, permit := claim("stock:42", "1"), claim("stock:42", "1"), claim("stock:42", "1")
	fair.Fair = true
	read.ReadWrite, read.Mode = true, driver.Shared
	permit.Mode, permit.Permits = driver.Permit, 2
	return map[string]probed{
		"mutex": {
			scripts: "acquire renew release abandon force explain acquire_all renew_all release_all register client publish report",
			try:     try(claim("stock:42", "1")),
		},
		"fair":       {scripts: "fair_acquire fair_release fair_wake renew force explain client", try: try(fair)},
		"read-write": {scripts: "rw_read_acquire rw_read_renew rw_write_acquire rw_release renew client", try: try(read)},
		"semaphore": {
			scripts: "semaphore_acquire semaphore_renew semaphore_release semaphore_abandon semaphore_force semaphore_resize semaphore_count client",
			try:     try(permit),
		},
		"latch": {
			scripts: "latch_set latch_down latch_count",
			try: func(ctx context.Context, b *redishold.Backend) error {
				_, err := b.SetCount(ctx, "stock:42", "call", 1)
				return err
			},
		},
		"plain semaphore": {
			scripts: "permits_set permits_take permits_undo permits_give permits_drain permits_count",
			try: func(ctx context.Context, b *redishold.Backend) error {
				_, err := b.PlainSemaphore("stock:42").TrySet(ctx, 1)
				return err
			},
		},
		"plain": {
			scripts: "plain_acquire plain_renew plain_release plain_abandon plain_force plain_explain",
			opts:    redishold.Options{Layout: redishold.Plain},
			try:     try(claim("stock:42", "1")),
		},
		"timestamp": {
			scripts: "timestamp_acquire timestamp_renew timestamp_release timestamp_abandon timestamp_force timestamp_explain",
			opts:    redishold.Options{Layout: redishold.Timestamp},
			try:     try(claim("stock:42", "1")),
		},
	}
}

// TestProbeFindsEveryMissingRight takes away each command of the scripts in turn, and
// those that could undo something together: the first lock of a kind is refused, with
// the command's name, and nothing stays.
func TestProbeFindsEveryMissingRight(t *testing.T) {
	server := redistest.Start(t)
	for name, kind := range probedKinds() {
		t.Run(name, func(t *testing.T) {
			used := map[string]bool{"del": true}
			for _, script := range strings.Fields(kind.scripts) {
				for _, command := range commandsOf(t, script) {
					used[strings.ToLower(command)] = true
				}
			}
			wanting := [][]string{{"pexpire", "del"}}
			for command := range used {
				wanting = append(wanting, []string{command})
			}
			for _, commands := range wanting {
				rules := []string{"ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all"}
				var named []string
				for _, command := range commands {
					rules, named = append(rules, "-"+command), append(named, "+"+command)
				}
				server.String(rules...)
				b := redishold.New(connect(t, server.Addr(), "limited", "secret"), &kind.opts)
				wantRefused(t, kind.try(bounded(t), b), named)
				wantNothingLeft(t, server)
			}
			b := redishold.New(connect(t, server.Addr(), "", ""), &kind.opts)
			if err := kind.try(bounded(t), b); err != nil {
				t.Error(err)
			}
			for _, key := range server.Keys() {
				if strings.Contains(key, "probe") {
					t.Errorf("the probe left %q", key)
				}
			}
			server.String("FLUSHALL")
		})
	}
}
