package report

import (
	"bytes"
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/work"
)

// samples are six of two peers each: benchstat has an interval from there on.
func samples(t *testing.T) string {
	t.Helper()
	ours, other, left := cell("holdfast-rueidis", "rueidis", peer.Ours, 300, 301, 302, 303, 304, 305),
		cell("redislock", "go-redis", peer.Other, 100, 110, 120, 130, 140, 900), cell("rueidislock", "rueidis", peer.Other)
	left.Left = "no program:\nnot found"
	var b strings.Builder
	for _, store := range []peer.Store{peer.Redis, peer.Etcd} {
		cells := []Cell{ours, other, left}
		for i := range cells {
			cells[i].Work = work.Work{Name: "own-1", Kind: work.Own}
		}
		if err := Write(&b, store, "one each", cells); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestReadReadsWhatWriteWrote(t *testing.T) {
	text := samples(t)
	groups, err := Read(strings.NewReader(text), "x")
	if err != nil || len(groups) != 2 {
		t.Fatalf("got %d groups, %v, want two", len(groups), err)
	}
	for i, store := range []peer.Store{peer.Redis, peer.Etcd} {
		g := groups[i]
		if g.Store != store || g.Name != "own-1" || !strings.HasSuffix(g.How, ": one each") || len(g.Rows) != 2 {
			t.Errorf("got %+v, want two rows of own-1 in %s", g, store)
		}
		if r := g.Rows[0]; r.Peer.Role != peer.Ours || r.Figure(pairRate) != 302.5 || r.ToBest != 302.5/125 {
			t.Errorf("got %+v", r)
		}
	}
	if groups[0].Title() == groups[1].Title() || groups[0].Title() == "own-1" {
		t.Errorf("got the titles %q and %q", groups[0].Title(), groups[1].Title())
	}
	if want := Skipped + "Own-1/peer=rueidislock: no program: not found\n"; strings.Count(text, want) != 2 {
		t.Errorf("there is not twice %q in\n%s", want, text)
	}
	for _, broken := range []string{"BenchmarkOwn-1/peer=nobody 1 1 pairs/s\n", "BenchmarkOwn-1/peer=redislock 1 fast\n"} {
		if _, err := Read(strings.NewReader(text+broken), "x"); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}

// Names of peers can be parts of names of benchmarks.
func TestNamesOfBenchmarks(t *testing.T) {
	for _, p := range append(peer.Specs(), peer.OtherSpecs()...) {
		if strings.ContainsAny(p.Name, "/= \t") {
			t.Errorf("the name %q cannot be part of a benchmark's", p.Name)
		}
	}
}

func TestFiguresAreWrittenAsCSV(t *testing.T) {
	groups, err := Read(strings.NewReader(samples(t)), "x")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := CSV(&text, groups); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
	if err != nil || len(lines) != 5 {
		t.Fatalf("got %d lines, %v, want a head and four rows:\n%s", len(lines), err, &text)
	}
	row := map[string]string{}
	for i, name := range lines[0] {
		row[name] = lines[1][i]
	}
	want := map[string]string{
		"store": "redis", "work": "own-1", "peer": "holdfast-rueidis", "samples": "6",
		pairRate: "302.5", "÷ best peer": "2.42", "÷ best with its client": "", "spread": "0.01653",
	}
	for name, want := range want {
		if got, ok := row[name]; !ok || got != want {
			t.Errorf("got %q in the column %s, want %q:\n%s", got, name, want, &text)
		}
	}
	if _, ok := row[perOp]; ok {
		t.Errorf("the inverse of the rate has a column:\n%s", &text)
	}
}

// Benchstat finds the same medians in the samples as the tables have.
func TestBenchstatReadsTheSamples(t *testing.T) {
	path := filepath.Join(t.TempDir(), "samples.txt")
	text := samples(t)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	groups, err := Read(strings.NewReader(text), path)
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range []string{pairRate, perOp, "client-sec/op", "allocs/op"} {
		cmd := exec.CommandContext(t.Context(), "go", "tool", "benchstat", "-format", "csv", "-col", "/peer", "-filter", "store:redis .unit:"+unit, path)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, stderr.Bytes())
		}
		r := csv.NewReader(bytes.NewReader(out))
		r.FieldsPerRecord = -1
		lines, err := r.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var medians []string
		for _, line := range lines {
			if line[0] == "Own-1" { // median, interval, median, interval, difference, p
				medians = []string{line[1], line[3]}
			}
		}
		for i, row := range groups[0].Rows {
			if want := strconv.FormatFloat(row.Figure(unit), 'g', -1, 64); medians == nil || medians[i] != want {
				t.Errorf("%s of %s: got %v from benchstat, want %s:\n%s", unit, row.Peer.Name, medians, want, out)
			}
		}
	}
}
