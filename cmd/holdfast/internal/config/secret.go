package config

import (
	"fmt"
	"io"
	"os"
)

// ReadFile reads a file. It returns an error if the file has more than `most` bytes: a file
// named by mistake, such as /dev/zero, must not fill the memory.
func ReadFile(name string, most int) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, name, most)
}

func readAll(file io.Reader, name string, most int) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err == nil && len(content) > most {
		err = fmt.Errorf("%s: this is too long; at most %d bytes are read", name, most)
	}
	return content, err
}

// ReadPEM reads a file of certificates or of a key.
func ReadPEM(name string) ([]byte, error) { return ReadFile(name, maxFile) }

// ReadLocalPEM is ReadPEM for a file in the current folder or below it, also after links are
// followed. Other files are an error.
func ReadLocalPEM(name string) ([]byte, error) {
	root, err := os.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, name, maxFile)
}

// Exposed returns a warning if other users can read or write the file of secrets called name,
// else "".
func Exposed(name string) string { return exposed(name, true) }

func exposed(name string, secret bool) string {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	switch read, write := othersMay(info); {
	case write:
		return fmt.Sprintf("other users can write to %s; use chmod go-w", name)
	case read && secret:
		return fmt.Sprintf("other users can read %s; use chmod o-r", name)
	}
	return ""
}
