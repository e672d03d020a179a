package redishold

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

// waitsCall asks who says that it waits for the lock at p.
func (l *lister) waitsCall(p place) Call {
	return Call{Script: l.scripts.waits, Keys: []string{l.layout.waiting(p)}, Args: []string{strconv.Itoa(detailMembers)}}
}

// parseWaits reads what list_waits.lua answers. Whatever is wrong costs only what
// is shown.
func (l *lister) parseWaits(r Result) (waits []admin.ClientWait) {
	found, ok := texts(r.Value)
	if r.Err != nil || !ok || len(found)%2 != 1 {
		l.log.Debug("redis: read who waits", "error", r.Err)
		return nil
	}
	now, _ := strconv.ParseInt(found[0], 10, 64)
	for i := 1; i < len(found) && len(waits) < detailMembers; i += 2 {
		var w waitText
		if !isUUID(found[i]) || json.Unmarshal([]byte(found[i+1]), &w) != nil || age(now, w.At, 0) > waitLife {
			continue
		}
		waits = append(waits, admin.ClientWait{
			Client: w.client(found[i]), Mode: modeNamed(w.Mode), Waited: age(now, w.At, w.Waited), Count: max(w.Count, 1),
		})
	}
	slices.SortStableFunc(waits, func(a, b admin.ClientWait) int {
		return cmp.Or(cmp.Compare(b.Waited/time.Second, a.Waited/time.Second), cmp.Compare(a.Client.ID, b.Client.ID))
	})
	return waits
}
