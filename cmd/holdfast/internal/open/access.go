package open

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/internal/tlsfile"
	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/redishold/importconf"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// Access is the address of a store, with its user, password and certificates. It must not be
// printed. The processes of the demo get it as JSON on their standard input, so that no password
// is in a list of processes.
type Access struct {
	URL                string // as rueidisconn.Open takes it
	Username, Password string // instead of the URL's

	CACert, Cert, Key string // names of PEM files
	ServerName        string // the name in the server's certificate, instead of the host
	Insecure          bool   // certificates are not verified

	// Found means that the store comes from a configuration file that was found in the
	// current folder, and that the user has not named. Files that it names must be in that
	// folder, and the environment has no password for its store.
	Found bool

	DialTimeout time.Duration // for a connection; 0 is the client's default

	// Imported has the settings of a Java program's configuration that the fields above do not
	// have: its way of TLS, the name of the client, and several servers of which one is the
	// master.
	Imported *importconf.Settings `json:"-"`
}

// Place returns where the store is, without passwords.
func (a Access) Place() string {
	if a.URL == "" && a.Imported != nil {
		return strings.Join(a.Imported.Nodes, " or ")
	}
	return redisurl.Redacted(a.URL)
}

// Connect connects to a Redis. It returns the errors of rueidisconn.Open and of TLS.
func (a Access) Connect(ctx context.Context) (*rueidisconn.Conn, error) {
	config, err := a.TLS()
	if err != nil {
		return nil, err
	}
	o := &rueidisconn.Options{Username: a.Username, Password: a.Password, TLS: config, DialTimeout: a.DialTimeout}
	if i := a.Imported; i != nil {
		o.ClientName = i.ClientName
		if i.Deployment == importconf.Replicated {
			return openMaster(ctx, i.Nodes, o)
		}
	}
	return rueidisconn.Open(ctx, a.URL, o)
}

// openMaster connects to the first of the nodes that reports that it is the master.
func openMaster(ctx context.Context, nodes []string, o *rueidisconn.Options) (*rueidisconn.Conn, error) {
	var failed []error
	for _, node := range nodes {
		conn, err := rueidisconn.Open(ctx, node, o)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		info, err := conn.Server(ctx)
		if err == nil && info.Role == "master" {
			return conn, nil
		}
		conn.Close()
		failed = append(failed, cmp.Or(err, unsent.Error(fmt.Errorf("%s is no master", node))))
	}
	return nil, errors.Join(failed...)
}

// TLS returns the TLS settings of a, or nil if there are none. An error names the file.
func (a Access) TLS() (*tls.Config, error) {
	switch {
	case a.CACert == "" && a.Cert == "" && a.Key == "" && a.ServerName == "" && !a.Insecure:
		if a.Imported == nil {
			return nil, nil
		}
		read := config.ReadFile
		if a.Found {
			read = config.ReadLocal
		}
		return a.Imported.TLSConfig(read)
	case (a.Cert == "") != (a.Key == ""):
		return nil, errors.New("--cert and --key belong together")
	}
	own, err := tlsfile.Config(config.ReadFile, a.CACert, a.Cert, a.Key)
	if err != nil {
		return nil, fmt.Errorf("--cacert, --cert and --key: %w", err)
	}
	own.ServerName, own.InsecureSkipVerify = a.ServerName, a.Insecure // the latter with a warning
	return own, nil
}
