package rowstest

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// StatementsOf returns the statements in the struct s, whose fields are strings. The name of a
// statement is that of its field, with a small first letter.
func StatementsOf(s any) map[string]string {
	statements := map[string]string{}
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		field := v.Type().Field(i).Name
		statements[strings.ToLower(field[:1])+field[1:]] = v.Field(i).String()
	}
	return statements
}

// CompareStatements compares statements with the files of a folder. Each statement has a file of
// its own, NAME.sql, with the text as it is sent and a newline. A file without a statement is an
// error, too. If `update` is true, CompareStatements writes the files first.
func CompareStatements(t *testing.T, folder string, statements map[string]string, update bool) {
	t.Helper()
	if update {
		writeStatements(t, folder, statements)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(statements)) {
		file := filepath.Join(folder, name+".sql")
		content, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		} else if want := string(content); statements[name]+"\n" != want {
			t.Errorf("the statement %s is not as in %s; if it should be, run the test with -update. Got:\n%s\nwant:\n%s", name, file, statements[name], want)
		}
		files = slices.DeleteFunc(files, func(other string) bool { return other == file })
	}
	for _, file := range files {
		t.Errorf("there is no statement for %s; remove the file", file)
	}
}

func writeStatements(t *testing.T, folder string, statements map[string]string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, statement := range statements {
		if err := os.WriteFile(filepath.Join(folder, name+".sql"), []byte(statement+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
