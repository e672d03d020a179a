// Package sim runs processes that take locks over a simulated network and store, in fake
// time, and checks meanwhile what docs/guarantees.md promises. A seed decides what the
// processes do, what the network does with each message, and which faults come when.
//
// The Locker is the real one. What it is run against is a [store]: an engine behind the
// network. All of a simulation is in one bubble of testing/synctest, which ends only when
// every goroutine has ended.
//
//	make sim SEEDS=20000 FROM=1 STORE=memory
//
// With make sim a seed gives the same run again, as internal/e2e/simoverlay has it decide
// the order of goroutines too, with the version of Go that it knows. Otherwise that order
// is the runtime's, and a seed that failed may need some runs to fail again. A failure
// prints the shortest run that was found to break the same promise.
package sim
