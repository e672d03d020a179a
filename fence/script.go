package fence

import _ "embed" // the script

// Script is a Lua script that sets a value in Redis, unless a holder with a larger token
// has set it before. Run it with any client, with EVAL or EVALSHA:
//
//	KEYS[1]   a hash, whose fields token and value the script keeps
//	ARGV[1]   the token, in decimal
//	ARGV[2]   the new value
//
// The reply is {1, token} if the value was set, and {0, larger token} if the token was
// stale. Copy and change the script for another kind of write, because the comparison and
// the write must be in one script. Tokens must be below 2^53, like those of Redis.
//
//go:embed set.lua
var Script string

// Accepted reads a reply of Script. It returns nil if the value was set, ErrStale if the
// token was stale, and another error if it is not a reply of Script. Clients return a
// list of values as []any and integers as int64.
func Accepted(reply any) error {
	list, ok := reply.([]any)
	if !ok || len(list) != 2 {
		return badReply(reply)
	}
	switch list[0] {
	case int64(1):
		return nil
	case int64(0):
		return staleInRedis(list[1])
	}
	return badReply(reply)
}
