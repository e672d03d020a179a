// Package judge writes down what processes did with locks, and judges it.
//
// Workers report Events on their standard output (Recorder); the test that
// started them (Process) puts the reports together (New) and asks whether one
// lock explains them: Check walks over who believed what when and looks at the
// tokens, Linearizable asks a model with a lease and a token, Losses and Waits
// measure how early a loss was notified and how long a free lock was not taken.
// Free measures the latter from spans, where the calls are too many to report
// each of them.
//
// All processes run on one machine, so that their wall clocks are the same.
package judge
