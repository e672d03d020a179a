package demo

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/redishold"
)

//go:embed command.lua
var commandSource string

//go:embed ledger.lua
var ledgerSource string

// keep is how long the demo's keys stay in Redis if the demo is killed and cannot delete
// them.
const keep = 5 * time.Minute

// lockName is what the demo locks.
const lockName = "stock:42"

// keys are the names of the keys that the demo stores. They all begin with Prefix, and so do
// the keys of the library. On the terminal each run has its own Prefix. All pages share one
// Prefix, and each of their runs has its own Below.
type keys struct {
	Prefix, Below string
}

func newKeys(run string) keys { return keys{Prefix: "holdfast-demo:" + run + ":"} }

func (k keys) name() string   { return k.Below + lockName }
func (k keys) lock() string   { return k.Prefix + k.name() }
func (k keys) stock() string  { return k.lock() + ":left" }
func (k keys) sales() string  { return k.lock() + ":sales" }
func (k keys) ledger() string { return k.lock() + ":ledger" }

// shop is the data of the demo. It runs single Redis commands, one after the other, as an
// application without a lock does. Each command is a script of its own, because a
// redishold.Conn runs only scripts.
type shop struct {
	conn            redishold.Conn
	shut            func() // closes conn
	keys            keys
	command, ledger *redishold.Script
}

// openShop connects; close must be called.
func openShop(ctx context.Context, a access.Access, k keys) (*shop, error) {
	conn, err := a.Open(ctx)
	if err != nil {
		return nil, err
	}
	s := newShop(conn, k)
	s.shut = conn.Close
	return s, nil
}

// newShop returns a shop that uses a connection of the caller.
func newShop(conn redishold.Conn, k keys) *shop {
	return &shop{conn: conn, keys: k, command: redishold.NewScript("command", commandSource), ledger: redishold.NewScript("ledger", ledgerSource)}
}

func (s *shop) close() { s.shut() }

// do runs one command on a key. The reply is a string, an int64, a []any or nil.
func (s *shop) do(ctx context.Context, command, key string, args ...string) (any, error) {
	r := s.conn.Do(ctx, redishold.Call{Script: s.command, Keys: []string{key}, Args: append([]string{command}, args...)})[0]
	return r.Value, r.Err
}

// keepFor lets a key expire if no client deletes it.
func (s *shop) keepFor(ctx context.Context, key string) error {
	_, err := s.do(ctx, "PEXPIRE", key, milliseconds(keep))
	return err
}

// stock reads how many items are left.
func (s *shop) stock(ctx context.Context) (int64, error) {
	reply, err := s.do(ctx, "GET", s.keys.stock())
	if err != nil {
		return 0, err
	}
	text, _ := reply.(string)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the stock: %w", err)
	}
	return n, nil
}

// setStock writes how many items are left.
func (s *shop) setStock(ctx context.Context, n int64) error {
	_, err := s.do(ctx, "SET", s.keys.stock(), strconv.FormatInt(n, 10), "PX", milliseconds(keep))
	return err
}

// recordSale appends a sale, made under that fencing token (0 without a lock).
func (s *shop) recordSale(ctx context.Context, token uint64) error {
	if _, err := s.do(ctx, "RPUSH", s.keys.sales(), strconv.FormatUint(token, 10)); err != nil {
		return err
	}
	return s.keepFor(ctx, s.keys.sales())
}

// sales returns the fencing tokens of all sales in their order.
func (s *shop) sales(ctx context.Context) ([]uint64, error) {
	reply, err := s.do(ctx, "LRANGE", s.keys.sales(), "0", "-1")
	if err != nil {
		return nil, err
	}
	rows := texts(reply)
	tokens := make([]uint64, len(rows))
	for i, row := range rows {
		if tokens[i], err = strconv.ParseUint(row, 10, 64); err != nil {
			return nil, fmt.Errorf("the list of sales: %w", err)
		}
	}
	return tokens, nil
}

// write writes to the ledger under a fencing token. It returns whether the
// ledger accepted the write, and the largest token that the ledger has seen.
func (s *shop) write(ctx context.Context, who string, token uint64) (bool, uint64, error) {
	r := s.conn.Do(ctx, redishold.Call{
		Script: s.ledger, Keys: []string{s.keys.ledger()}, Args: []string{strconv.FormatUint(token, 10), who, milliseconds(keep)},
	})[0]
	if r.Err != nil {
		return false, 0, r.Err
	}
	reply, _ := r.Value.([]any)
	if len(reply) != 2 {
		return false, 0, fmt.Errorf("the ledger answered %d values, want 2", len(reply))
	}
	text, _ := reply[1].(string)
	seen, err := strconv.ParseUint(text, 10, 64)
	return reply[0] == int64(1), seen, err
}

// ledgerRows returns how many rows the ledger has, and who wrote the last one.
func (s *shop) ledgerRows(ctx context.Context) (rows int64, last string, err error) {
	m, err := s.hash(ctx, s.keys.ledger())
	if err != nil || len(m) == 0 {
		return 0, "", err
	}
	rows, err = strconv.ParseInt(m["rows"], 10, 64)
	return rows, m["last"], err
}

// hash returns the fields of a hash.
func (s *shop) hash(ctx context.Context, key string) (map[string]string, error) {
	reply, err := s.do(ctx, "HGETALL", key)
	list, m := texts(reply), map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	return m, err
}

// lockRecord returns the fields of the lock in Redis, and the rest of its lease.
func (s *shop) lockRecord(ctx context.Context) (map[string]string, time.Duration, error) {
	fields, err := s.hash(ctx, s.keys.lock())
	if err != nil {
		return nil, 0, err
	}
	left, err := s.leaseLeft(ctx)
	return fields, left, err
}

// leaseLeft returns the rest of the lock's lease. It is negative if there is no lock.
func (s *shop) leaseLeft(ctx context.Context) (time.Duration, error) {
	reply, err := s.do(ctx, "PTTL", s.keys.lock())
	ms, _ := reply.(int64)
	return time.Duration(ms) * time.Millisecond, err
}

// sweep deletes everything that a round stored, and the keys in more. It knows all keys, so
// it need not search a database that belongs to somebody.
func (s *shop) sweep(ctx context.Context, more ...string) error {
	for _, key := range append(more, s.keys.lock(), s.keys.stock(), s.keys.sales(), s.keys.ledger()) {
		if _, err := s.do(ctx, "DEL", key); err != nil {
			return err
		}
	}
	return nil
}

// texts returns the strings of a list.
func texts(reply any) []string {
	list, _ := reply.([]any)
	text := make([]string, len(list))
	for i := range list {
		text[i], _ = list[i].(string)
	}
	return text
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
