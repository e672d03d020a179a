package demo

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

//go:embed command.lua
var commandSource string

//go:embed ledger.lua
var ledgerSource string

// keep is how many seconds the demo's keys stay in Redis if the demo is killed and cannot
// delete them.
const keep = "300"

// lockName is the name of the demo's lock, and sharedName is its name in stores that are not
// Redis. A database keeps a row for each name that was ever locked, so all demos share one
// name there.
const (
	lockName   = "stock:42"
	sharedName = "holdfast-demo:" + lockName
)

// keys has the names of the keys that the demo stores. Name is the name of the lock. All keys
// begin with Prefix, also the keys of the library. On the terminal each run has its own
// Prefix. All pages share one Prefix, and each sale has its own Name.
type keys struct {
	Prefix, Name string
}

func (k keys) lock() string   { return k.Prefix + k.Name }
func (k keys) stock() string  { return k.lock() + ":left" }
func (k keys) sales() string  { return k.lock() + ":sales" }
func (k keys) ledger() string { return k.lock() + ":ledger" }

// counter is the key that counts the fencing tokens, see docs/redis.md. In production the key
// stays forever. In the demo it expires, and the tokens after that begin at the time of the
// server's clock.
func (k keys) counter() string { return k.Prefix + "holdfast:token" }

// shop is the data of the demo. It runs single Redis commands, one after the other, as an
// application without a lock does. Each command is a script of its own, because a
// redishold.Conn runs only scripts.
type shop struct {
	conn            redishold.Conn
	keys            keys
	command, ledger *redishold.Script
}

func newShop(conn redishold.Conn, k keys) *shop {
	return &shop{conn: conn, keys: k, command: redishold.NewScript("command", commandSource), ledger: redishold.NewScript("ledger", ledgerSource)}
}

// do runs one command on a key, and returns the value or the values of the reply.
func (s *shop) do(ctx context.Context, command, key string, args ...string) ([]string, error) {
	return s.run(ctx, s.command, key, append([]string{command}, args...)...)
}

// run runs a script on a key.
func (s *shop) run(ctx context.Context, script *redishold.Script, key string, args ...string) ([]string, error) {
	r := s.conn.Do(ctx, redishold.Call{Script: script, Keys: []string{key}, Args: args})[0]
	list, _ := r.Value.([]any)
	reply := make([]string, len(list))
	for i := range list {
		reply[i], _ = list[i].(string)
	}
	return reply, r.Err
}

// number runs one command whose reply is a number.
func (s *shop) number(ctx context.Context, command, key string, args ...string) (int64, error) {
	reply, err := s.do(ctx, command, key, args...)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.Join(reply, ""), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w", command, key, err)
	}
	return n, nil
}

// keepFor lets a key expire after `keep`, unless a client deletes it before.
func (s *shop) keepFor(ctx context.Context, key string) error {
	_, err := s.do(ctx, "EXPIRE", key, keep)
	return err
}

// stock reads how many items are left.
func (s *shop) stock(ctx context.Context) (int64, error) { return s.number(ctx, "GET", s.keys.stock()) }

// setStock writes how many items are left.
func (s *shop) setStock(ctx context.Context, n int64) error {
	_, err := s.do(ctx, "SET", s.keys.stock(), strconv.FormatInt(n, 10), "EX", keep)
	return err
}

// recordSale appends a sale with the fencing token of the buyer's lock. Without a lock the
// token is 0.
func (s *shop) recordSale(ctx context.Context, token uint64) error {
	if _, err := s.do(ctx, "RPUSH", s.keys.sales(), strconv.FormatUint(token, 10)); err != nil {
		return err
	}
	return s.keepFor(ctx, s.keys.sales())
}

// sales returns the fencing tokens of all sales in their order.
func (s *shop) sales(ctx context.Context) ([]uint64, error) {
	rows, err := s.do(ctx, "LRANGE", s.keys.sales(), "0", "-1")
	if err != nil {
		return nil, err
	}
	tokens := make([]uint64, len(rows))
	for i, row := range rows {
		if tokens[i], err = strconv.ParseUint(row, 10, 64); err != nil {
			return nil, fmt.Errorf("the list of sales: %w", err)
		}
	}
	return tokens, nil
}

// write writes to the ledger with a fencing token. It returns whether the ledger accepted the
// write, and the largest token that the ledger has seen.
func (s *shop) write(ctx context.Context, who string, token uint64) (accepted bool, seen uint64, err error) {
	reply, err := s.run(ctx, s.ledger, s.keys.ledger(), strconv.FormatUint(token, 10), who, keep)
	if err != nil {
		return false, 0, err
	}
	seen, err = strconv.ParseUint(reply[1], 10, 64)
	return reply[0] == "1", seen, err
}

// leaseLeft returns the rest of the lock's lease. It is negative if there is no lock.
func (s *shop) leaseLeft(ctx context.Context) (time.Duration, error) {
	left, err := s.number(ctx, "PTTL", s.keys.lock())
	return time.Duration(left) * time.Millisecond, err
}

// sweep deletes all keys that a round stored, and the keys in the parameter `more`. It knows
// their names, so it need not search a database that other programs use.
func (s *shop) sweep(ctx context.Context, more ...string) error {
	for _, key := range append(more, s.keys.lock(), s.keys.stock(), s.keys.sales(), s.keys.ledger()) {
		if _, err := s.do(ctx, "DEL", key); err != nil {
			return err
		}
	}
	return nil
}
