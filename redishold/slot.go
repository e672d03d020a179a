package redishold

import (
	"strconv"
	"strings"
	"sync"
)

// slotCount is how many hash slots a Redis Cluster has.
const slotCount = 16384

// slotOf returns the hash slot of key: that of its hash tag if it has one.
func slotOf(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	return int(crc16(key)) % slotCount
}

// crc16 is CRC-16/XMODEM, as the Redis Cluster specification asks for.
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

// crcSteps returns the CRC of each byte.
func crcSteps() (steps [256]uint16) {
	for i := range steps {
		steps[i] = crc16(string([]byte{byte(i)}))
	}
	return steps
}

// slotNumbers finds, for every slot, the smallest number whose decimal digits
// lie in that slot. Such a number in braces makes a key for the slot.
type slotNumbers struct {
	once    sync.Once
	numbers [slotCount]uint32
}

// of returns the number for slot. The first call builds the table, which takes a
// few milliseconds.
func (s *slotNumbers) of(slot int) uint32 {
	s.once.Do(s.build)
	return s.numbers[slot]
}

func (s *slotNumbers) build() {
	var found [slotCount]bool
	var digits [10]byte
	steps := crcSteps() // a byte at a time: every command pays for this when it starts
	for n, missing := uint32(0), slotCount; missing > 0; n++ {
		var crc uint16
		for _, d := range strconv.AppendUint(digits[:0], uint64(n), 10) {
			crc = crc<<8 ^ steps[byte(crc>>8)^d]
		}
		slot := crc % slotCount
		if !found[slot] {
			found[slot], s.numbers[slot] = true, n
			missing--
		}
	}
}
