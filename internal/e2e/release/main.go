// Command release makes a version of all modules of this repository, or rehearses that.
//
//	release -version v0.1.0   # a commit and tags in this clone; prints what to push
//	release -check            # the same in a scratch clone, then what users do with it
//
// It never pushes. docs/releasing.md has the steps and the rules.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	version := flag.String("version", "", "make this version, such as v0.1.0")
	rehearse := flag.Bool("check", false, "release into a scratch folder, and use the result as users do")
	keep := flag.Bool("keep", false, "with -check: keep the scratch folder")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *version, *rehearse, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version string, rehearse, keep bool) error {
	top, err := repo{"."}.git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	switch {
	case rehearse && version == "":
		return check(ctx, top, keep, os.Stdout)
	case version != "" && !rehearse:
		r := &release{repo: repo{top}, version: version, date: time.Now().UTC(), out: os.Stdout}
		return r.run(ctx)
	default:
		return fmt.Errorf("say -version v0.1.0 or -check")
	}
}
