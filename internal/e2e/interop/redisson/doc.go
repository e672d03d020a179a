// Package redisson runs the real Redisson, in versions of different behaviour on
// the wire, beside Holdfast. The packages below it hold the cases.
//
// A case is a test named Test<Kind>/<version>/<number>_<name>. What a case saw of
// Redisson's own weaknesses it reports by t.Attr("observed", …). docs/evidence/redisson.csv has
// them all: `make interop REPORT=-update` writes it from the run.
package redisson
