// Package sim runs processes that take locks over a simulated network and store, in fake
// time, and meanwhile checks the promises of docs/guarantees.md. One check is that no name stays
// free while somebody waits for it: see liveness.go. A seed decides what the processes do, what
// the network does with each message, and when which faults happen.
//
// The Locker is the real one. It uses a [Store]: an engine behind the simulated network. Each
// simulation runs in one bubble of testing/synctest, which ends only when all of its
// goroutines have ended.
//
//	make sim SEEDS=20000 FROM=1 STORE=memory
//
// With make sim, the same seed gives the same run, because internal/e2e/simoverlay makes the
// seed decide the order of goroutines, too. That works only with the version of Go that
// simoverlay knows. Otherwise the runtime decides that order, and a seed that failed may need
// some runs to fail again. A failure prints the shortest run that Seeds found to break the same
// promise.
package sim
