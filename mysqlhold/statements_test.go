package mysqlhold

import (
	"flag"
	"testing"

	"github.com/holdfast-go/holdfast/internal/rows/rowstest"
)

var update = flag.Bool("update", false, "write the statements in testdata again")

// The folder testdata has every statement as it is sent:
//
//	go test ./mysqlhold -run TestStatements -update
func TestStatements(t *testing.T) {
	own := &table{name: "`" + DefaultTable + "`"}
	statements := rowstest.StatementsOf(own.write())
	statements["create"] = own.create()
	statements["columns"] = columnsStatement
	rowstest.CompareStatements(t, "testdata/statements", statements, *update)
}

// The same for the table of ShedLock.
func TestShedLockStatements(t *testing.T) {
	shed := &table{name: "`shedlock`", layout: ShedLock}
	dialect := shed.shedDialect()
	statements := rowstest.StatementsOf(dialect.Statements())
	statements["read"] = dialect.Read(2)
	statements["create"] = shed.create()
	statements["columns"] = shedColumnsStatement
	statements["zone"] = zoneStatement
	rowstest.CompareStatements(t, "testdata/shedlock", statements, *update)
}
