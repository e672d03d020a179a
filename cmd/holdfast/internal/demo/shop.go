package demo

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/redisurl"
)

//go:embed ledger.lua
var ledgerSource string

// keep is how long the demo's keys stay in Redis if nobody deletes them because
// the demo was killed.
const keep = 5 * time.Minute

// lockName is what the demo locks.
const lockName = "stock:42"

// keys are the names of what the demo stores. They all begin with the same
// prefix, which no other run shares; the library's own keys do as well.
type keys struct {
	Prefix string
}

func newKeys(run string) keys { return keys{Prefix: "holdfast-demo:" + run + ":"} }

func (k keys) lock() string   { return k.Prefix + lockName }
func (k keys) stock() string  { return k.lock() + ":left" }
func (k keys) sales() string  { return k.lock() + ":sales" }
func (k keys) ledger() string { return k.lock() + ":ledger" }

// shop is the data that the demo is about. It uses plain Redis commands, one
// after the other, as an application does that has no lock.
type shop struct {
	redis  rueidis.Client
	keys   keys
	ledger *rueidis.Lua
}

func openShop(a access.Access, k keys) (*shop, error) {
	if err := CheckURL(a.URL); err != nil {
		return nil, err
	}
	opt, err := rueidis.ParseURL(a.URL)
	if err != nil {
		return nil, redisurl.ErrBad // rueidis' own may repeat the URL, and with it the password
	}
	opt.Username = cmp.Or(a.Username, opt.Username)
	opt.Password = cmp.Or(a.Password, opt.Password)
	config, err := a.TLS()
	if err != nil {
		return nil, err
	}
	if config != nil && opt.TLSConfig != nil {
		config.ServerName = cmp.Or(config.ServerName, opt.TLSConfig.ServerName)
		config.InsecureSkipVerify = config.InsecureSkipVerify || opt.TLSConfig.InsecureSkipVerify
		opt.TLSConfig = config
	}
	opt.DisableCache = true
	client, err := rueidis.NewClient(opt)
	if err != nil {
		return nil, fmt.Errorf("connect to Redis: %w", err)
	}
	return &shop{redis: client, keys: k, ledger: rueidis.NewLuaScript(ledgerSource)}, nil
}

func (s *shop) close() { s.redis.Close() }

// stock reads how many items are left.
func (s *shop) stock(ctx context.Context) (int64, error) {
	return s.redis.Do(ctx, s.redis.B().Get().Key(s.keys.stock()).Build()).AsInt64()
}

// setStock writes how many items are left.
func (s *shop) setStock(ctx context.Context, n int64) error {
	cmd := s.redis.B().Set().Key(s.keys.stock()).Value(strconv.FormatInt(n, 10)).Px(keep).Build()
	return s.redis.Do(ctx, cmd).Error()
}

// recordSale appends a sale, made under that fencing token (0 without a lock).
func (s *shop) recordSale(ctx context.Context, token uint64) error {
	results := s.redis.DoMulti(ctx,
		s.redis.B().Rpush().Key(s.keys.sales()).Element(strconv.FormatUint(token, 10)).Build(),
		s.redis.B().Pexpire().Key(s.keys.sales()).Milliseconds(keep.Milliseconds()).Build())
	return errors.Join(results[0].Error(), results[1].Error())
}

// sales returns the fencing tokens of all sales in their order.
func (s *shop) sales(ctx context.Context) ([]uint64, error) {
	rows, err := s.redis.Do(ctx, s.redis.B().Lrange().Key(s.keys.sales()).Start(0).Stop(-1).Build()).AsStrSlice()
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

// write writes to the ledger under a fencing token. It returns whether the
// ledger accepted the write, and the largest token that the ledger has seen.
func (s *shop) write(ctx context.Context, who string, token uint64) (bool, uint64, error) {
	args := []string{strconv.FormatUint(token, 10), who, strconv.FormatInt(keep.Milliseconds(), 10)}
	reply, err := s.ledger.Exec(ctx, s.redis, []string{s.keys.ledger()}, args).ToArray()
	if err != nil {
		return false, 0, err
	}
	if len(reply) != 2 {
		return false, 0, fmt.Errorf("the ledger answered %d values, want 2", len(reply))
	}
	accepted, err := reply[0].AsInt64()
	if err != nil {
		return false, 0, err
	}
	seen, err := reply[1].AsUint64()
	return accepted == 1, seen, err
}

// ledgerRows returns how many rows the ledger has, and who wrote the last one.
func (s *shop) ledgerRows(ctx context.Context) (rows int64, last string, err error) {
	m, err := s.redis.Do(ctx, s.redis.B().Hgetall().Key(s.keys.ledger()).Build()).AsStrMap()
	if err != nil || len(m) == 0 {
		return 0, "", err
	}
	rows, err = strconv.ParseInt(m["rows"], 10, 64)
	return rows, m["last"], err
}

// lockRecord returns what Redis shows of the lock: its fields, and what is left
// of its lease.
func (s *shop) lockRecord(ctx context.Context) (map[string]string, time.Duration, error) {
	fields, err := s.redis.Do(ctx, s.redis.B().Hgetall().Key(s.keys.lock()).Build()).AsStrMap()
	if err != nil {
		return nil, 0, err
	}
	left, err := s.leaseLeft(ctx)
	return fields, left, err
}

// leaseLeft returns what is left of the lock's lease, negative without a lock.
func (s *shop) leaseLeft(ctx context.Context) (time.Duration, error) {
	ms, err := s.redis.Do(ctx, s.redis.B().Pttl().Key(s.keys.lock()).Build()).AsInt64()
	return time.Duration(ms) * time.Millisecond, err
}

// sweep deletes everything that a round stored, and more keys. All of them are
// known, so nothing has to be searched for in a database that belongs to
// somebody.
func (s *shop) sweep(ctx context.Context, more ...string) error {
	var dels rueidis.Commands
	for _, key := range append(more, s.keys.lock(), s.keys.stock(), s.keys.sales(), s.keys.ledger()) {
		dels = append(dels, s.redis.B().Del().Key(key).Build()) // one by one: a cluster keeps them apart
	}
	for _, r := range s.redis.DoMulti(ctx, dels...) {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return nil
}
