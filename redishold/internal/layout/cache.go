package layout

import (
	"strings"
	"sync"
)

const (
	maxCached     = 1024      // maximal number of names in each of the two generations
	maxBytes      = 256 << 10 // maximal number of bytes of these names
	longestCached = 32 << 10  // maximal number of bytes of a name in the cache
)

// keysCache has the Keys of the names that were used last, in two generations. When the young
// generation is full, it becomes the old generation, and the cache drops the former old
// generation.
type keysCache struct {
	mu         sync.Mutex
	young, old map[string]Keys
	bytes      int // bytes of the names in young
}

// get returns the Keys of the lock called name, if the cache has them. The caller holds the
// mutex.
func (c *keysCache) get(name string) (Keys, bool) {
	if k, ok := c.young[name]; ok {
		return k, true
	}
	k, ok := c.old[name]
	if ok {
		c.put(k)
	}
	return k, ok
}

// put adds k to the young generation. The caller holds the mutex.
func (c *keysCache) put(k Keys) {
	if len(c.young) >= maxCached || c.bytes+len(k.Name) > maxBytes {
		c.old, c.young, c.bytes = c.young, nil, 0
	}
	if c.young == nil {
		c.young = map[string]Keys{}
	}
	c.young[k.Name] = k
	c.bytes += len(k.Name)
}

// Keys returns the keys of the lock called name.
func (l *Layout) Keys(name string) Keys {
	if len(name) > longestCached {
		return l.ComputeKeys(name)
	}
	l.keysCache.mu.Lock()
	defer l.keysCache.mu.Unlock()
	k, ok := l.keysCache.get(name)
	if !ok {
		k = l.ComputeKeys(strings.Clone(name)) // name may be part of a large string
		l.keysCache.put(k)
	}
	return k
}
