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
// A seed does not give the same run twice: the order of goroutines, and the random numbers
// of the core, are those of the runtime. A failure prints the seed and the end of its
// history; the seed fails again within some runs, if its fault is not rare.
package sim
