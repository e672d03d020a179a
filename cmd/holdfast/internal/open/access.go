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

// Access is the address of a store, with its user, password and certificates. Do not print an
// Access: it has passwords. The processes of the demo get it as JSON on their standard input,
// because every user of the machine can read the arguments of processes.
type Access struct {
	URL                string // for a Redis, any URL that rueidisconn.Open accepts; "" if Imported has several servers
	Username, Password string // if they are not "", they replace those of the URL

	CACert, Cert, Key string // names of PEM files
	ServerName        string // the name that the server's certificate must have; "" means the host
	Insecure          bool   // do not verify certificates

	// Found means that the store is from a configuration file that the program found in the
	// current folder, and that the user has not named. The files that this configuration names
	// must be in that folder. The store gets no password from the environment.
	Found bool

	DialTimeout time.Duration // how long a connection may take to open; 0 means the time in the URL, or the default

	// Imported has the settings of a Java program's configuration for which Access has no other
	// field: the settings of TLS, the name of the client, and a list of servers of which one is
	// the master. It is nil if there is no such configuration.
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

// openMaster connects to the first node that reports the role of the master.
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

// TLS returns the settings of TLS, nil if there are none. An error about a file has its name.
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
	own.ServerName, own.InsecureSkipVerify = a.ServerName, a.Insecure // package store warns about Insecure
	return own, nil
}
