// Bench measures Holdfast beside other lock libraries and beside the bare client,
// all with the same work against the same server.
//
//	go run ./bench -set short -samples bench.txt -markdown bench.md -svg bench.svg
//	go run ./bench -set full -samples bench.txt
//	go run ./bench -set stores -store etcd,zookeeper
//	go run ./bench -tables bench.txt
//	go run ./bench -check
//
// It starts a redis-server of its own, and an etcd if there is one: what HOLDFAST_ETCD
// names or PATH has; .ci/etcd builds it where no package has it. Every sample is taken
// in processes of its own. Where taskset is there, the server has one core and the
// clients have the others.
//
// Redisson itself is measured where .ci/interop-java has built it in $HOLDFAST_INTEROP.
//
// With -set stores it measures the other stores, one after the other, each beside what
// its users use today. The jars of ZooKeeper are in HOLDFAST_ZOOKEEPER; .ci/zookeeper gets
// them. Databases are those that are installed.
//
// The samples are in the Go benchmark format: benchstat -col /peer bench.txt reads them, and
// so does -tables, which measures nothing.
//
// With -check it measures only what does not depend on the machine, and compares
// that with bench/guard.json; -update writes that table again.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/bench/delay"
	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/run"
	"github.com/holdfast-go/holdfast/bench/work"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
)

// Arguments that make the program another one.
const (
	child   = "measure" // a measuring process
	network = "delay"   // a proxy with a delay: its address, that of the server, and the delay follow
)

// other runs what the arguments make of the program, if they do.
func other(args []string) (ran bool, err error) {
	switch {
	case len(args) == 1 && args[0] == child:
		return true, work.Serve(os.Stdin, os.Stdout)
	case len(args) == 4 && args[0] == network:
		return true, pass(args[1], args[2], args[3])
	default:
		return false, nil
	}
}

// pass delays what goes through addr to a server and back.
func pass(addr, server, text string) error {
	after, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	proxy, err := delay.Listen(addr, server, after)
	if err != nil {
		return err
	}
	return proxy.Run()
}

func main() {
	if ran, err := other(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	} else if ran {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	set, stores     string
	works, peers    string
	samples, tables string
	markdown, csv   string
	svg             string
	repeats         int
	retries         int
	check, update   bool
	guard           string
	etcd, jars      string
	pin             bool
	skipDisk        bool
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.set, "set", "short", "what to measure: short (under 10 minutes), full, scale (curves) or stores")
	f.StringVar(&s.stores, "store", "etcd,zookeeper,postgresql,mysql", "with -set stores: which")
	f.StringVar(&s.works, "work", "", "only the works whose names begin so, separated by commas")
	f.StringVar(&s.peers, "peer", "", "only the peers whose names begin so, separated by commas")
	f.IntVar(&s.repeats, "repeats", 0, "samples of each cell; 0 for what the set says")
	f.IntVar(&s.retries, "retries", -1, "how often a disturbed sample is taken again; -1 for what the set says")
	f.StringVar(&s.samples, "samples", "", "file for the samples, in the Go benchmark format; none if empty")
	f.StringVar(&s.tables, "tables", "", "measure nothing, and show the samples of this file")
	f.StringVar(&s.markdown, "markdown", "-", "file for the tables; - for standard output")
	f.StringVar(&s.csv, "csv", "", "file for the figures of the tables, as CSV; none if empty")
	f.StringVar(&s.svg, "svg", "", "file for the plot; none if empty")
	f.BoolVar(&s.check, "check", false, "compare the costs that do not depend on the machine with the table of -guard")
	f.BoolVar(&s.update, "update", false, "with -check: write a new table")
	f.StringVar(&s.guard, "guard", "bench/guard.json", "the table for -check")
	f.StringVar(&s.etcd, "etcd", cmp.Or(os.Getenv(etcdtest.ProgramEnv), "etcd"), "the etcd program; without it etcd is left out")
	f.StringVar(&s.jars, "zookeeper", os.Getenv(zktest.JarsEnv), "the folder with the jars of ZooKeeper")
	f.BoolVar(&s.skipDisk, "skip-disk", false, "start the other stores so that they do not wait for the disk, as with a disk in memory")
	f.BoolVar(&s.pin, "pin", true, "give the server a core of its own, where taskset is there")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return s, nil
}

// bench does what the arguments say.
func bench(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if s.tables != "" {
		samples, err := os.ReadFile(s.tables)
		if err != nil {
			return err
		}
		return s.show(s.tables, string(samples), stdout)
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o := run.Options{Dir: dir, Child: []string{self, child}, Network: []string{self, network}, Pin: s.pin, Log: stderr}
	o.Settings.Jars, o.Settings.SkipDisk = s.jars, s.skipDisk
	o.Settings.Etcd, _ = exec.LookPath(s.etcd) // "" leaves etcd out, and the tables say so
	if s.check {
		return s.compare(ctx, o, stdout)
	}
	return s.measure(ctx, o, stdout)
}

// plan returns the set of a store that the flags ask for.
func (s settings) plan(store peer.Store) (run.Set, error) {
	switch s.set {
	case "short":
		return s.narrow(run.Short())
	case "full":
		return s.narrow(run.Full())
	case scaleSet:
		return s.narrow(run.Scale())
	case storesSet:
		return s.narrow(run.Stores(store))
	default:
		return run.Set{}, fmt.Errorf("there is no set %q: short, full, scale or stores", s.set)
	}
}

// narrow keeps of a set what the flags name.
func (s settings) narrow(set run.Set) (run.Set, error) {
	set.Works = pick(set.Works, s.works, func(w work.Work) string { return w.Name })
	set.Peers = pick(set.Peers, s.peers, func(p peer.Spec) string { return p.Name })
	if s.repeats > 0 {
		set.Repeats = s.repeats
	}
	if s.retries >= 0 {
		set.Retries = s.retries
	}
	if len(set.Works) == 0 || len(set.Peers) == 0 {
		return set, errors.New("nothing is left to measure: see -work and -peer")
	}
	return set, nil
}

// pick keeps what begins with one of the words; all if there are none.
func pick[T any](all []T, words string, name func(T) string) (picked []T) {
	for _, x := range all {
		for word := range strings.SplitSeq(words, ",") {
			if strings.HasPrefix(name(x), word) {
				picked = append(picked, x)
				break
			}
		}
	}
	return picked
}
