package redistest

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
)

// hostPort returns addr as configuration files and commands take it.
func hostPort(addr string) string {
	host, port := split(addr)
	return host + " " + port
}

func split(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err) // we made it ourselves
	}
	return host, port
}

func portOf(addr string) int {
	_, port := split(addr)
	n, err := strconv.Atoi(port)
	if err != nil {
		panic(err)
	}
	return n
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// each runs do for all servers side by side and returns their errors joined.
func each(servers []*Server, do func(*Server) error) error {
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { errs[i] = do(s) })
	}
	all.Wait()
	return errors.Join(errs...)
}
