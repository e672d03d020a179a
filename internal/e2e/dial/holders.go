package dial

import (
	"context"

	"github.com/holdfast-go/holdfast/admin"
)

// Holders returns the holders of name, as s shows it.
func Holders(ctx context.Context, s admin.Source, name string) ([]admin.Holder, error) {
	records, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	holders := make([]admin.Holder, len(records[0].Holds))
	for i, h := range records[0].Holds {
		holders[i] = h.Holder
	}
	return holders, nil
}
