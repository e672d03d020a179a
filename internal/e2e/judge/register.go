package judge

import (
	"cmp"
	"slices"
)

// Registers replays what holders read and wrote under exclusive locks: each read
// a value and wrote one that replaced it. plain are writes that undid another
// which came after their read. fenced are the same at a register that refuses
// a writer with a smaller token than one that it has seen: there are none as
// long as tokens rise. refused is how many it refused.
func (h *History) Registers() (plain, fenced []*Violation, refused int) {
	byName := map[string][]access{}
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Read != Never {
			byName[o.Name] = append(byName[o.Name], access{o, o.Read, false})
		}
		if o.Wrote != Never {
			byName[o.Name] = append(byName[o.Name], access{o, o.Wrote, true})
		}
	}
	for _, list := range byName {
		slices.SortStableFunc(list, func(a, b access) int { return cmp.Compare(a.at, b.at) })
		plain = append(plain, h.replay(list, nil)...)
		fenced = append(fenced, h.replay(list, &refused)...)
	}
	return plain, fenced, refused
}

// access is one read or write.
type access struct {
	*Operation
	at    int64
	write bool
}

// replay is one register; it has a fence if refused is not nil.
func (h *History) replay(list []access, refused *int) (found []*Violation) {
	seen, last := uint64(0), (*Operation)(nil) // the largest token, the last writer
	before := map[*Operation]*Operation{}      // whose value each one read
	for _, a := range list {
		if refused != nil && a.Token < seen {
			*refused++
			continue
		}
		seen = max(seen, a.Token)
		if !a.write {
			before[a.Operation] = last
			continue
		}
		read, ok := before[a.Operation]
		if ok && read != last && last != a.Operation {
			v := h.violation(Update, a.at, last, a.Operation, "wrote what %q protects, the second one without having read what the first one wrote", a.Name)
			v.To = a.at
			found = append(found, v)
		}
		last = a.Operation
	}
	return found
}
