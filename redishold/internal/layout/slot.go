package layout

import (
	"strconv"
	"strings"
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

// SlotNumbers returns, for every slot, the smallest number whose decimal digits are a key in
// that slot. A key with that number in braces is in the slot, too. SlotNumbers takes a few
// milliseconds.
func SlotNumbers() *[SlotCount]uint32 {
	var numbers [SlotCount]uint32
	var found [SlotCount]bool
	var digits [10]byte
	var steps [256]uint16 // the CRC of each byte; with this table the loop is fast enough to run at each start of the command holdfast
	for i := range steps {
		steps[i] = crc16(string([]byte{byte(i)}))
	}
	for n, missing := uint32(0), SlotCount; missing > 0; n++ {
		var crc uint16
		for _, d := range strconv.AppendUint(digits[:0], uint64(n), 10) {
			crc = crc<<8 ^ steps[byte(crc>>8)^d]
		}
		slot := crc % SlotCount
		if !found[slot] {
			found[slot], numbers[slot] = true, n
			missing--
		}
	}
	return &numbers
}
