// Package renew renews leases before they end, and says so when one has ended.
//
// A store keeps a lock for a limited time, its lease, so that the lock of a process that
// died becomes free. A holder therefore renews its lease again and again,
// here each third of its length: two renewals may fail in a row before the lease is in
// danger. A program may hold many locks. A [Scheduler] renews all of them.
//
//   - An [Item] is what is renewed. The Scheduler keeps a heap of items, by when each is
//     due: to be renewed, or to end because its lease is over.
//   - One timer fires when the first of them is due. It runs while there are items, and
//     once more after the last one. No goroutine waits.
//   - What is due at a time travels in batches, each in a call and a goroutine of its own.
//     Renewals are moved to common moments, so that many leases take few calls. Items
//     whose last renewal failed travel apart from the others, so that they delay nobody.
//   - Calls a second and calls under way have a bound. A store that fails gets no more than
//     that, and what waits for a call travels together.
//   - An answer is recorded first, in all items of the batch. Only then is it reported,
//     to logs and observers, which may be slow: no report delays a renewal or an end.
//   - Where the wall clock has run ahead of the monotonic clock, the machine may have been
//     suspended, and all items are renewed at once, see package clock.
//
// The Scheduler knows neither locks nor stores: it is given a function that renews claims,
// and items that keep their own deadlines.
package renew
