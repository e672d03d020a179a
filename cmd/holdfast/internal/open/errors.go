package open

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-go/holdfast/internal/answers"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// unreachable returns the error of a store that could not be reached.
func unreachable(kind Kind, where string, err error) error {
	err = unsent.Error(err)
	return fmt.Errorf("%s at %s: %w", kind.Title(), where, unsent.Reworded(err, plainText(err.Error(), where)))
}

// plainText returns the text of an error without the address `where`, which stands before it, and
// without the steps of the client.
func plainText(text, where string) string {
	// With a headline, the address and the name of the host, pgx begins the reason of each attempt
	// to connect.
	text = regexp.MustCompile("(^|; )(?:failed to connect to `[^`]*`: )?(\\S+:\\d+) \\([^)]*\\): ").ReplaceAllString(text, "$1$2: ")
	for _, r := range [][2]string{
		{where + ": ", ""},
		{"refused the answer of " + where + ",", "refused the answer,"},
		{"tls error: server refused TLS connection", "the server refused TLS"},
		{"failed to receive message: ", ""},
		{"dial error: ", ""},
		{"invalid connection: refused", "refused"},
	} {
		text = strings.ReplaceAll(text, r[0], r[1])
	}
	return text
}

// failure returns the error of a store that failed with `err` before any lock was requested. If
// a server refused, the error is also the driver.ErrRefused that the answer means. Otherwise
// failure returns the error of unreachable.
func failure(kind Kind, where string, err error) error {
	if refusal := meaning(err).Refusal(); refusal != nil {
		err = unsent.Error(err)
		return fmt.Errorf("%s at %s: %w: %w", kind.Title(), where, refusal, unsent.Reworded(err, plainText(err.Error(), where)))
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
