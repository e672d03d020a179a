// Command wire takes locks as standard input says. It is built from two versions, which
// then contend for the same locks. Its argument is the URL of a store.
//
//	lock NAME           answers "held TOKEN"
//	unlock              answers "released"
//	contend NAME FILE   takes the lock again and again for two seconds, with FILE as the
//	                    critical section, and answers "grants N"
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"example.com/users/store"
	"github.com/holdfast-go/holdfast"
)

const ttl = 8 * time.Second

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func run(url string) error {
	b, shut, err := store.Open(url, ttl)
	if err != nil {
		return err
	}
	defer shut()
	locker := holdfast.New(b, &holdfast.Options{TTL: ttl})
	var lock *holdfast.Lock
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch f := strings.Fields(in.Text()); f[0] {
		case "lock":
			if lock, err = locker.Lock(context.Background(), f[1]); err == nil {
				fmt.Println("held", lock.Token())
			}
		case "unlock":
			if err = lock.Unlock(); err == nil {
				fmt.Println("released")
			}
		case "contend":
			var n int
			if n, err = contend(locker, f[1], f[2]); err == nil {
				fmt.Println("grants", n)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func contend(locker *holdfast.Locker, name, file string) (grants int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for {
		err := locker.Mutex(name).Do(ctx, func(_ context.Context, lock *holdfast.Lock) error { return section(file, lock.Token()) })
		if err != nil && errors.Is(err, context.DeadlineExceeded) {
			return grants, nil
		}
		if err != nil {
			return grants, err
		}
		grants++
		time.Sleep(time.Millisecond) // the other one's turn
	}
}

// section fails if somebody else is in it, and writes down the token.
func section(file string, token uint64) (err error) {
	inside, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("two holders: %w", err)
	}
	log, err := os.OpenFile(file+".tokens", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(log, token)
	return errors.Join(err, log.Close(), inside.Close(), os.Remove(file))
}
