package layout

import (
	"strconv"
	"strings"
	"sync"
)

// SlotCount is the number of hash slots of a Redis Cluster.
const SlotCount = 16384

// SlotOf returns the hash slot of `key`. If the key has a hash tag, the slot is that of the hash
// tag.
func SlotOf(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	return int(crc16(key)) % SlotCount
}

// crc16 returns the CRC-16/XMODEM of s, as the Redis Cluster specification requires.
func crc16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

// SlotNumbers knows, for every slot, the smallest number whose decimal digits are a key in that
// slot. A key with that number in braces is in the slot, too. Numbers are computed when they are
// needed: those of all slots take a few milliseconds, which is a part of each start of the command
// holdfast. The zero value is ready for use.
type SlotNumbers struct {
	mu    sync.Mutex
	found [SlotCount]uint32 // by slot: the smallest number plus 1; 0 if it is not known yet
	next  uint32            // all smaller numbers were tried
	steps [256]uint16       // the CRC of each byte; set when `next` is not 0
}

// Of returns the smallest number whose decimal digits are a key in the given slot.
func (s *SlotNumbers) Of(slot int) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == 0 {
		for i := range s.steps {
			s.steps[i] = crc16(string([]byte{byte(i)}))
		}
	}
	var digits [10]byte
	for ; s.found[slot] == 0; s.next++ {
		var crc uint16
		for _, d := range strconv.AppendUint(digits[:0], uint64(s.next), 10) {
			crc = crc<<8 ^ s.steps[byte(crc>>8)^d]
		}
		if other := crc % SlotCount; s.found[other] == 0 {
			s.found[other] = s.next + 1
		}
	}
	return s.found[slot] - 1
}
