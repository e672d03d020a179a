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

// failure returns the error of a store that failed with `err` before any lock was requested. If
// a server refused, the error is also driver.ErrRefused. Otherwise failure returns the error of
// unreachable.
func failure(kind Kind, where string, err error) error {
	if refuses(err) {
		return fmt.Errorf("%s at %s: %w: %w", kind.Title(), where, driver.ErrRefused, unsent.Error(err))
	}
	return unreachable(kind, where, err)
}

// refuses reports whether err is the answer of a server that does not accept the login, the
// database or a setting.
func refuses(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		// in this order: login; database; permission or setting; a pooler that lacks the protocol
		return slices.Contains([]string{"28", "3D", "42", "08"}, e.Code[:min(2, len(e.Code))])
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		// no permission for the database, login, no such database, host; then: ways to log in
		return slices.Contains([]uint16{1044, 1045, 1049, 1130, 1251, 1698, 2061}, e.Number)
	}
	return slices.ContainsFunc([]error{
		rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken,
	}, func(refusal error) bool { return errors.Is(err, refusal) })
}
