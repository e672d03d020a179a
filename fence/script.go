package fence

import _ "embed" // the script

// Script is a Lua script that sets a value in Redis unless a holder with a larger
// token has set it before. Run it with any client, by EVAL or EVALSHA:
//
//	KEYS[1]   a hash, whose fields token and value the script keeps
//	ARGV[1]   the token, in decimal
//	ARGV[2]   the new value
//
// The reply is {1, token} if the value was set, and {0, larger token} if the
// token was stale. It is a pattern to copy where the protected write is another
// one: the comparison and the write have to be in the same script. Tokens must be
// below 2^53, as those of Redis are.
//
//go:embed set.lua
var Script string

// Accepted reads what Script replied: nil, ErrStale, or an error if it is no
// reply of Script. Clients return a list of values as []any and integers as int64.
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
