// Package plaintest proves that Holdfast's protocol Plain shares locks with the
// plain locks of other libraries: redsync and redislock, which run in the test,
// redis-py and node-redlock, which run as programs of their own. It has nothing
// but tests.
package plaintest
