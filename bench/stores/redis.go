package stores

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

type redis struct {
	*redistest.Server
	asked int64 // how many commands Empty and Done have sent, each over a connection of its own
}

func startRedis(dir string) (Server, error) {
	s, err := redistest.Run(dir)
	if err != nil {
		return nil, err
	}
	return &redis{Server: s}, nil
}

func (r *redis) Reach(t *peer.Target) {
	t.Redis, t.Redisson = r.Addr(), Redisson()
}

// Redisson returns the folder with the program of Redisson that measures, or "" where
// .ci/interop-java has not built it.
func Redisson() string {
	folder := filepath.Join(os.Getenv("HOLDFAST_INTEROP"), "java", redisson.Newest)
	if exists(filepath.Join(folder, "classes", "holdfast", "peer", "Bench.class")) {
		return folder
	}
	return ""
}

func (r *redis) Empty(context.Context) error {
	r.asked++
	if err, ok := r.Do("FLUSHALL").(error); ok {
		return fmt.Errorf("empty Redis: %w", err)
	}
	return nil
}

// Done asks the server with one command.
func (r *redis) Done(context.Context) (Work, error) {
	r.asked++
	switch reply := r.Do("INFO", "all").(type) {
	case string:
		w, err := parseInfo(reply)
		w.Accepted -= r.asked
		return w, err
	case error:
		return Work{}, reply
	default:
		return Work{}, fmt.Errorf("INFO answered %T", reply)
	}
}

// parseInfo reads the server's INFO, without the commands of Empty and Done.
func parseInfo(info string) (w Work, err error) {
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case key == "used_cpu_sys", key == "used_cpu_user":
			var seconds float64
			seconds, err = strconv.ParseFloat(value, 64)
			w.CPU += time.Duration(seconds * float64(time.Second))
		case key == "total_connections_received":
			w.Accepted, err = strconv.ParseInt(value, 10, 64)
		case strings.HasPrefix(key, "cmdstat_"):
			err = w.command(strings.TrimPrefix(key, "cmdstat_"), value)
		}
		if err != nil {
			return w, fmt.Errorf("INFO says %q: %w", line, err)
		}
	}
	return w, nil
}

func (w *Work) command(name, stats string) error {
	if name == "info" || name == "flushall" {
		return nil
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
	calls, err := strconv.ParseInt(text, 10, 64)
	w.Requests += calls
	if name == "eval" || name == "evalsha" {
		w.Calls += calls
	}
	return err
}
