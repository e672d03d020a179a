//go:build unix

package sqltest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fill makes the folder of data with a program that takes seconds for that, once for each
// machine: what it made is kept beside the servers that are kept there, and copied.
func (s *Server) fill(program string, args ...string) error {
	template, err := s.template(program, args)
	if err != nil {
		return err
	}
	if _, err := os.Stat(template); err == nil {
		return copyTree(template, s.data())
	}
	if err := s.run(program, args...); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(s.data(), "auto.cnf")) // every MySQL has an identity of its own
	made, err := os.MkdirTemp(filepath.Dir(template), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	if err := copyTree(s.data(), filepath.Join(made, "data")); err != nil {
		return err
	}
	_ = os.Rename(filepath.Join(made, "data"), template) // another one was sooner where that fails
	return nil
}

// template is the folder of what program makes with args, wherever it makes it.
func (s *Server) template(program string, args []string) (string, error) {
	about, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	all := os.Getenv("HOLDFAST_SERVERS")
	if all == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		all = filepath.Join(cache, "holdfast-servers")
	}
	folder := filepath.Join(all, "data")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	what := fmt.Sprint(program, about.ModTime().UnixNano(), s.user, strings.ReplaceAll(strings.Join(args, "\n"), s.dir, ""))
	return filepath.Join(folder, fmt.Sprintf("%x", sha256.Sum256([]byte(what)))[:16]), nil
}

// copyTree copies a folder, with its owners.
func copyTree(from, to string) error {
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w\n%s", err, out)
	}
	return nil
}
