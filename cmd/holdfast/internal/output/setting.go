package output

import (
	"cmp"
	"io"
)

// Setting is a value that the program uses, and where it comes from.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source,omitempty"` // a flag, a variable, a line of a file, or default
}

// PrintSettings prints settings for people, or as JSON.
func PrintSettings(w io.Writer, all []Setting, asJSON bool) error {
	if asJSON {
		for _, s := range all {
			if err := JSONTo(w).Encode(s); err != nil {
				return err
			}
		}
		return nil
	}
	rows := [][]string{{"SETTING", "VALUE", "FROM"}}
	for _, s := range all {
		rows = append(rows, []string{s.Name, cmp.Or(Clean(s.Value), "-"), Clean(s.Source)})
	}
	_, err := io.WriteString(w, columns(rows, 0))
	return err
}
