package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// measured has go test run its binaries with this program, which writes to a file what each
// costs. A run that may be answered from the cache stays as it is.
func measured(args []string, file string) []string {
	self, err := os.Executable()
	if file == "" || err != nil || !slices.Contains(args, "-count=1") {
		return args
	}
	return slices.Insert(slices.Clone(args), 1, "-exec="+self+" "+measure)
}

const measure = "measure"

// costs runs a test binary, and adds a line to a file: its folder, and its seconds by the
// clock and of processors, those of the programs that it has waited for included.
func costs(args []string, file string) int {
	cmd, began := exec.Command(args[0], args[1:]...), time.Now()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGQUIT, syscall.SIGTERM, os.Interrupt) // go test asks for stacks with the first
	defer func() { signal.Stop(signals); close(signals) }()
	err := cmd.Start()
	if err == nil {
		go func() {
			for s := range signals {
				_ = cmd.Process.Signal(s)
			}
		}()
		err = cmd.Wait()
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "again:", err)
		return 1
	}
	state := cmd.ProcessState
	dir, _ := os.Getwd()
	processor := state.UserTime() + state.SystemTime()
	if err := add(file, fmt.Sprintf("%6.0f %6.0f  %s\n", time.Since(began).Seconds(), processor.Seconds(), dir)); err != nil {
		fmt.Fprintln(os.Stderr, "again:", err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		fmt.Println(state) // which signal, as go test says it
		return 1
	}
	return state.ExitCode()
}

// add appends text to a file.
func add(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
