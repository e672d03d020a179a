package mysqlhold_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// The names are those that the programs themselves use.
func TestAdvisoryNames(t *testing.T) {
	for want, got := range map[string]string{
		"2938252834":          mysqlhold.MigrateName("app", "schema_migrations"),
		"Flyway--320650056":   mysqlhold.FlywayName("app", "flyway_schema_history"),
		"6939591962871035475": mysqlhold.RailsName("app"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// nowhere is a connector without a server.
type nowhere struct{}

var errNoServer = errors.New("no server")

func (nowhere) Connect(context.Context) (driver.Conn, error) { return nil, errNoServer }
func (nowhere) Driver() driver.Driver                        { return nil }

func TestAdvisoryWithoutServer(t *testing.T) {
	if _, err := mysqlhold.LockAdvisory(t.Context(), nowhere{}, "job"); !errors.Is(err, errNoServer) {
		t.Errorf("LockAdvisory: got %v, want that there is no server", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mysqlhold.TryAdvisory(ended, nowhere{}, "job"); !errors.Is(err, context.Canceled) {
		t.Errorf("TryAdvisory with a context that has ended: got %v, want context.Canceled", err)
	}
	var none *mysqlhold.AdvisoryLock
	if err := errors.Join(none.Err(), none.Unlock()); !errors.Is(err, holdfast.ErrUnlocked) {
		t.Errorf("Err and Unlock of nil: got %v, want ErrUnlocked", err)
	}
}
