//go:build unix

package runningtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// make image builds with the first builder that works, without another image, and passes on its error.
func TestImage(t *testing.T) {
	const program = "the program"
	golang := `[ "$CGO_ENABLED $GOOS $1" = "0 linux build" ] || exit 9
while [ "$1" != -o ]; do shift; done; printf '` + program + `' >"$2"`
	works := `[ "$1" = info ] || { echo "$@" >"$BIN/args"; for last; do true; done; cp -r "$last" "$BIN/context"; }`
	down := `echo "no engine runs" >&2; exit 1`
	fails := `[ "$1" = info ] || { echo "the disk is full" >&2; exit 125; }`
	for name, test := range map[string]struct {
		docker, podman, buildah string
		status                  int
		says, args              string
	}{
		"docker":         {works, works, works, 0, "docker has built the image shop:1\n", "build -q -t shop:1 -f "},
		"podman":         {down, works, works, 0, "podman has built the image shop:1\n", "build -q -t shop:1 -f "},
		"buildah":        {down, down, works, 0, "buildah has built the image shop:1\n", "bud -q -t shop:1 -f "},
		"none":           {down, down, down, 2, "none works here\n  docker info: no engine runs\n  podman info: no engine runs\n", ""},
		"a failed build": {fails, works, works, 125, "the disk is full\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			for name, script := range map[string]string{"docker": test.docker, "podman": test.podman, "buildah": test.buildah, "go": golang} {
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("sh", ".ci/image")
			cmd.Dir, cmd.Env = root, []string{"PATH=" + bin + ":/usr/bin:/bin", "BIN=" + bin, "IMAGE=shop:1"}
			out, _ := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != test.status || !strings.Contains(string(out), test.says) {
				t.Errorf("got status %d and %q, want %d and %q", cmd.ProcessState.ExitCode(), out, test.status, test.says)
			}
			if args, _ := os.ReadFile(filepath.Join(bin, "args")); !strings.HasPrefix(string(args), test.args) {
				t.Errorf("the builder got %q, want %q", args, test.args)
			}
			if test.status == 0 {
				isWhole(t, filepath.Join(bin, "context"), program)
			}
		})
	}
}

// isWhole checks that the folder from which an image is built has all files of its Containerfile.
func isWhole(t *testing.T, context, program string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(context, "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	if from := regexp.MustCompile(`(?m)^FROM .*$`).FindAllString(string(text), -1); !slices.Equal(from, []string{"FROM scratch"}) {
		t.Errorf("the image is made from %q, want nothing", from)
	}
	copied := regexp.MustCompile(`(?m)^COPY (\S+) \S+$`).FindAllStringSubmatch(string(text), -1)
	if len(copied) != 2 || strings.Count(string(text), "COPY") != 2 {
		t.Errorf("want the certificates and the program in:\n%s", text)
	}
	for _, c := range copied {
		content, err := os.ReadFile(filepath.Join(context, c[1]))
		if want := map[bool]string{true: program, false: "BEGIN CERTIFICATE"}[c[1] == "/holdfast"]; err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s: %v, %d bytes, want %q", c[1], err, len(content), want)
		}
	}
}
