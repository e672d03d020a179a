package redishold

import (
	"cmp"
	"context"
	"strings"

	"github.com/holdfast-go/holdfast/admin"
)

// ForceReasons looks for the marks that ForceUnlock leaves to the owners of ended: they last as
// long as the lease would have, and 10 s at least. A permit whose owner is not
// known has none. It is one command for each, 200 to a call; in a cluster each is a
// call.
func (b *Backend) ForceReasons(ctx context.Context, ended []admin.Ended) ([]string, error) {
	l, err := b.lister(ctx)
	if err != nil {
		return make([]string, len(ended)), err
	}
	return l.forced(ctx, ended)
}

func (l *lister) forced(ctx context.Context, ended []admin.Ended) ([]string, error) {
	why := make([]string, len(ended))
	var keys []string
	var asked []int // of each key, whose mark it is
	for i, e := range ended {
		p := l.layout.locate(e.Name)
		if l.info.Cluster && placeable(p) != nil {
			continue // nobody can have held that
		}
		owner := e.Owner
		if l.own == nil {
			owner = strings.TrimSuffix(owner, writeField) // one mark is for both sides
		}
		keys, asked = append(keys, l.layout.mark(p, owner)), append(asked, i)
	}
	if len(keys) == 0 {
		return why, nil
	}
	calls := paged(l.scripts.marks, keys, l.info.Cluster)
	var failed error
	for i, result := range l.do(ctx, calls...) {
		page := asked[:len(calls[i].Keys)]
		asked = asked[len(page):]
		marks, ok := texts(result.Value)
		switch {
		case result.Err != nil:
			failed = cmp.Or(failed, l.classify(l.layout.locate(ended[page[0]].Name), result.Err))
			continue
		case !ok || len(marks) != len(page):
			failed = cmp.Or(failed, badReply(l.scripts.marks.Name(), result.Value))
			continue
		}
		for j, at := range page {
			why[at], _ = strings.CutPrefix(marks[j], forcedMark)
			if why[at] == marks[j] {
				why[at] = "" // the mark of one that gave up
			}
		}
	}
	return why, failed
}
