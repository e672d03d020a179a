package work

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	slots    = 4096
	slotSize = 64 // a cache line, so that names do not slow each other down
	writer   = 1 << 20
)

// page is memory that all processes of a sample share. Each name has a slot, in
// which its holders count themselves: what the locks should prevent shows there,
// at the cost of two atomic additions.
type page struct{ memory []byte }

// NewPage makes the file for a page.
func NewPage(path string) error {
	return os.WriteFile(path, make([]byte, slots*slotSize), 0o600)
}

func openPage(path string) (*page, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	memory, err := syscall.Mmap(int(f.Fd()), 0, slots*slotSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("share %s: %w", path, err)
	}
	return &page{memory}, nil
}

func (p *page) close() { _ = syscall.Munmap(p.memory) }

// word returns a number of a slot.
func (p *page) word(slot, i int) *int64 {
	return (*int64)(unsafe.Pointer(&p.memory[slot%slots*slotSize+8*i])) //nolint:gosec // aligned, and within the page
}

// rule says how many may hold a name at once; the zero rule, that nobody counts.
type rule struct {
	weight, limit int64
	slot          int // of the name
}

func exclusive() rule           { return rule{weight: writer, limit: writer} }
func reading() rule             { return rule{weight: 1, limit: writer - 1} }
func permits(n int) rule        { return rule{weight: 1, limit: int64(n)} }
func (r rule) of(slot int) rule { return rule{r.weight, r.limit, slot} }
func unchecked(r rule) bool     { return r.weight == 0 }
func (r rule) ok(n int64) bool  { return n <= r.limit }

// enter counts a holder in and reports whether it may be there.
func (p *page) enter(slot int, r rule) bool {
	return unchecked(r) || r.ok(atomic.AddInt64(p.word(slot, 0), r.weight))
}

// leave counts a holder out. It is called before the unlock.
func (p *page) leave(slot int, r rule) {
	if !unchecked(r) {
		atomic.AddInt64(p.word(slot, 0), -r.weight)
	}
}

// takes notes that a process holds the slot, and reports whether another one did before.
func (p *page) takes(slot, process int) bool {
	before := atomic.SwapInt64(p.word(slot, 2), int64(process)+1)
	return before != 0 && before != int64(process)+1
}

// vacated notes that an unlock of the slot begins. Processes of one machine have
// the same clock.
func (p *page) vacated(slot int) { atomic.StoreInt64(p.word(slot, 1), time.Now().UnixNano()) }

// sinceVacated returns how long ago that was, or 0 if there was none.
func (p *page) sinceVacated(slot int) time.Duration {
	at := atomic.SwapInt64(p.word(slot, 1), 0)
	if at == 0 {
		return 0
	}
	return time.Duration(time.Now().UnixNano() - at)
}
