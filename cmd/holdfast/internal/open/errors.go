package open

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// unreachable returns the error of a store that could not be reached.
func unreachable(kind Kind, where string, err error) error {
	return fmt.Errorf("%s at %s: %w", kind.Title(), where, unsent.Error(err))
}

// failure returns the error for err, which came before a request for a lock. It is also
// driver.ErrRefused if a server refuses the user. Otherwise the store is unreachable.
func failure(kind Kind, where string, err error) error {
	if refuses(err) {
		return fmt.Errorf("%s at %s: %w: %w", kind.Title(), where, driver.ErrRefused, unsent.Error(err))
	}
	return unreachable(kind, where, err)
}

// refuses reports whether a server refuses a login, a database that does not exist, or a
// setting.
func refuses(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		// login, database, permission or setting, a pooler that does not know the protocol
		return slices.Contains([]string{"28", "3D", "42", "08"}, e.Code[:min(2, len(e.Code))])
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		// database, login, no such database, host, the way of logging in
		return slices.Contains([]uint16{1044, 1045, 1049, 1130, 1251, 1698, 2061}, e.Number)
	}
	return slices.ContainsFunc([]error{
		rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken,
	}, func(refusal error) bool { return errors.Is(err, refusal) })
}
