package redisson

import (
	"flag"
	"fmt"
	"os"
	"strconv"
)

// Prepare is what TestMain of the packages with cases begins with: so many cases
// run at a time, as they do little but wait. In a process that GoProcess started it
// does what that says, and ends.
func Prepare(atATime int) {
	if plan := os.Getenv(planVar); plan != "" {
		if err := serve(plan, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "Go process:", err)
			os.Exit(1)
		}
		os.Exit(0) // what is held stays held, as after a crash
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atATime)); err != nil {
		panic(err)
	}
}
