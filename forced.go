package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/admin"
)

// Forced asks the store which of the holds in ended, by this program or any other,
// were ended by Break, and returns the reasons that were given, in the same order:
// "" of a hold that ended otherwise, or longer ago than its lease and some seconds.
// It is for those who watch with Look, and see a hold vanish. A Redisson thread
// that took the lock again since then cannot be told from one that did not.
//
// Where only some could be read the error is not nil, and the others stand. It is
// errors.ErrUnsupported on a store that does not tell.
func (l *Locker) Forced(ctx context.Context, ended []admin.Ended) ([]string, error) {
	why := make([]string, len(ended))
	witness, ok := l.backend.(admin.Source)
	if !ok {
		return why, fmt.Errorf("look up how holds ended: %s does not tell: %w", l.info.Name, errors.ErrUnsupported)
	}
	for _, e := range ended {
		if err := l.check(e.Name); err != nil {
			return why, fmt.Errorf("look up how holds ended: %w", err)
		}
	}
	told, err := witness.ForceReasons(ctx, ended)
	copy(why, told)
	if err != nil {
		err = fmt.Errorf("look up how holds ended: %w", err)
	}
	return why, err
}
