package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

// zooKeeper is an ensemble of one server.
type zooKeeper struct {
	child.Program
	addr string
	conn *zk.Conn
}

func startZooKeeper(settings Settings, dir string) (Server, error) {
	if settings.Jars == "" {
		return nil, errors.New("there is no ZooKeeper; .ci/zookeeper gets one")
	}
	addr, err := address()
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(addr, ":")
	config := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPortAddress=%s\nclientPort=%s\nmaxClientCnxns=0\nadmin.enableServer=false\n",
		filepath.Join(dir, "data"), host, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	forceSync := "yes"
	if settings.SkipDisk {
		forceSync = "no"
	}
	z := &zooKeeper{addr: addr}
	cmd := exec.Command("java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dzookeeper.forceSync="+forceSync,
		"-cp", filepath.Join(settings.Jars, "*"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	if err := z.Serve(cmd, filepath.Join(dir, "log"), until(func(ctx context.Context) error { _, err := z.received(ctx); return err })); err != nil {
		return nil, err
	}
	z.conn, _, err = zk.Connect([]string{addr}, 30*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		z.Kill()
		return nil, err
	}
	return z, nil
}

type silent struct{}

// Printf does nothing: what goes wrong is returned.
func (silent) Printf(string, ...any) {}

func (z *zooKeeper) Reach(t *peer.Target) {
	t.ZooKeeper = z.addr
	if jar := filepath.Join(os.Getenv("HOLDFAST_INTEROP"), "curator", "peer.jar"); exists(jar) {
		t.Curator = jar
	}
}

func exists(file string) bool {
	_, err := os.Stat(file) //nolint:gosec // the caller of the program chooses the folder
	return err == nil
}

// Empty deletes what is below the root of the peers. Nodes of sessions that end meanwhile
// go by themselves.
func (z *zooKeeper) Empty(context.Context) error {
	var err error
	for range 10 {
		if err = z.remove(peer.Root); !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return err
}

// remove deletes what is below a node, many nodes with one request.
func (z *zooKeeper) remove(path string) error {
	const together = 200
	children, _, err := z.conn.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	var requests []any
	for _, name := range children {
		if err := z.remove(path + "/" + name); err != nil {
			return err
		}
		requests = append(requests, &zk.DeleteRequest{Path: path + "/" + name, Version: -1})
	}
	for len(requests) > 0 {
		n := min(together, len(requests))
		if _, err := z.conn.Multi(requests[:n]...); err != nil {
			return err
		}
		requests = requests[n:]
	}
	return nil
}

// Done reads the server's own statistics, which count pings too.
func (z *zooKeeper) Done(ctx context.Context) (Work, error) {
	n, err := z.received(ctx)
	return Work{Requests: n, CPU: worked(z.PID())}, err
}

// received returns how many packets the server has received.
func (z *zooKeeper) received(ctx context.Context) (int64, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", z.addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return 0, err
	}
	said, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	_, number, found := strings.Cut(string(said), "Received: ")
	if !found {
		return 0, fmt.Errorf("ZooKeeper says %q", said)
	}
	number, _, _ = strings.Cut(number, "\n")
	return strconv.ParseInt(number, 10, 64)
}

func (z *zooKeeper) Close() {
	z.conn.Close()
	z.Kill()
}
