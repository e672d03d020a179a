// Package renew renews leases before they end, and notifies the owner of a lease when the lease
// has ended.
//
// A store keeps a lock for a limited time, its lease, so that the lock of a process that died
// becomes free. So a holder renews its lease. This package does so after each third of the
// lease, so that two renewals may fail in a row before the lease is in danger. A program may
// hold many locks. A [Scheduler] renews all of them.
//
//   - An [Item] is something that has a lease. The Scheduler keeps a heap of items, in the
//     order in which they are due: to be renewed, or to end because the lease is over.
//   - One timer fires when the first of them is due. It is set while there are items, and
//     fires once more when the last item is gone. No goroutine waits.
//   - Items that are due are renewed in batches. Each batch is one call, in a goroutine of its
//     own. Renewals are moved to common times, so that many leases need few calls. Items whose
//     last renewal failed are in batches of their own, so that they do not delay other items.
//   - The number of calls per second, and of calls under way, is limited. So a store that fails
//     does not get more and more calls: items that wait for a call share the next calls.
//   - An answer is recorded first, in all items of the batch. Only then is it reported to logs
//     and observers, which may be slow. So no report delays a renewal or the end of an item.
//   - If the wall clock has run ahead of the monotonic clock, the machine may have been
//     suspended. Then all items are renewed at once; see package clock.
//
// The Scheduler knows neither locks nor stores: it is given a function that renews claims,
// and items that keep their own deadlines.
package renew
