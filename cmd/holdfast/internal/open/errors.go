package open

import (
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-go/holdfast/internal/answers"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// unreachable returns the error of a store that could not be reached.
func unreachable(kind Kind, where string, err error) error {
	return fmt.Errorf("%s at %s: %w", kind.Title(), where, unsent.Error(err))
}

// failure returns the error of a store that failed with `err` before any lock was requested. If
// a server refused, the error is also the driver.ErrRefused that the answer means. Otherwise
// failure returns the error of unreachable.
func failure(kind Kind, where string, err error) error {
	if refusal := meaning(err).Refusal(); refusal != nil {
		return fmt.Errorf("%s at %s: %w: %w", kind.Title(), where, refusal, unsent.Error(err))
	}
	return unreachable(kind, where, err)
}

// meaning returns what err means if it is the answer of a server, and answers.Unknown if not.
func meaning(err error) answers.Meaning {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answers.Postgres(e.Code, e.Message)
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return answers.MySQL(int(e.Number))
	}
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return answers.Etcd(e.Error())
	}
	return answers.Unknown
}
