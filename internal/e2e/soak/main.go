// Command soak runs Holdfast against faults for as long as one likes and judges
// everything that its users saw.
//
//	go run ./internal/e2e/soak -duration 10m -deployment cluster -seed 1
//
// Several processes take locks of all kinds on real servers while a nemesis
// breaks connections, processes and servers. What it does is drawn from the
// seed; the same seed gives the same faults in the same order again, though not
// at the same instants of the same histories. Each round of some seconds ends
// with a time without faults, in which every waiter has to be served;
// then its history is judged and forgotten.
//
// It ends with status 1 after a violation, and names a folder with the history,
// the faults and what the proxies withheld.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
)

func main() {
	worker.Main(jobs())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command. It returns its exit status: 2 if it could not run at all.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	duration := flags.Duration("duration", 2*time.Minute, "how long the work goes on; judging its rounds comes on top")
	deployment := flags.String("deployment", "all", "all of Redis, stores for the others, or some of "+strings.Join(slices.Concat(deployments(), anystore.Names()), ", "))
	seed := flags.Uint64("seed", 0, "what the faults are drawn from; 0 for a new one")
	first := flags.Int("from", 1, "the round to begin with, to replay one")
	round := flags.Duration("round", 20*time.Second, "how long between two judgements")
	asJSON := flags.Bool("json", false, "also print a line of JSON for each deployment")
	out := flags.String("out", "", "folder for what explains a violation; default a temporary one")
	quiet := flags.Bool("quiet", false, "do not print each fault")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	names, known := deployments(), slices.Concat(deployments(), anystore.Names())
	switch *deployment {
	case "all", "":
	case "stores":
		names = anystore.Names()
	default:
		names = strings.Split(*deployment, ",")
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 32)
	}
	var all []*totals
	status := 0
	for _, name := range names {
		if !slices.Contains(known, name) {
			fmt.Fprintf(stderr, "soak: no deployment %q: there are %s\n", name, strings.Join(known, ", "))
			return 2
		}
		s := soak{
			deployment: name, seed: *seed, duration: *duration / time.Duration(len(names)), round: *round, first: *first, out: *out,
			log: stdout, quiet: *quiet,
		}
		t, err := s.run(ctx)
		if t != nil {
			all = append(all, t)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintf(stderr, "soak: %s, seed %d: %v\n", name, *seed, err)
			status = 1
		}
	}
	return max(status, report(stdout, all, *asJSON, json.NewEncoder(stdout)))
}
