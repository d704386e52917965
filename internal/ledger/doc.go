// Package ledger keeps the state, the input and the result of every job in
// Redis. It is the truth about a job; the queue is only its transport, may
// deliver a job twice, and may lose it.
//
// # Keys
//
// All keys of one job carry the hash tag {id}, so that one script can change
// them together and Redis Cluster keeps them on one node.
//
//	tf:{id}          hash    state, fence, attempts, times, tenant, queue, …
//	tf:{id}:input    string  the Job document, as it is when it is small, else zstd
//	tf:{id}:result   string  the Result document, likewise
//	tf:{id}:history  list    one line per ended attempt but the one that ended the job, of which the entry tells; the newest last
//	tf:open          zset    ids of jobs that are not finished; the score is when to look at one again
//	tf:dlq           zset    ids of dead letters; the score is when they were buried
//	tf:done          channel ids of jobs that became terminal
//	tf:cancel        channel ids of running jobs that shall be canceled
//	tf:state         channel ids of jobs that were claimed, given back, or taken from a dead worker
//
// Every key has a TTL. A job that is not finished has Config.OpenTTL, renewed by each
// release, and by a claim when an eighth of it is over, so that what everybody forgot goes away in the end; a finished one has its own
// retention; a dead letter has Config.DeadTTL. tf:open and tf:dlq are given the
// longest TTL of what they index each time something is added.
//
// tf:open and tf:dlq live on other cluster slots than the jobs, so they are
// eventually consistent: a job is put into tf:open before its entry is written
// and taken out some milliseconds after its entry is terminal, together with others, and Overdue repairs what a
// crash in between left behind.
//
// # States
//
//	queued --Claim--> running --Finish--> finished, or canceled when its status says so
//	   ^                 |-----Bury----> dead
//	   |--Release--------|
//	   |--Reclaim--------|       (the worker is gone; too often: dead)
//	queued --Cancel--> canceled
//
// A claim comes with a fence, a number that grows with each claim of the job. Only the
// holder of the newest fence can change a running job, and finished,
// canceled and dead are final. So running a job twice is harmless.
//
// # Time
//
// Every time in an entry, and every comparison of times, uses the clock of
// Redis, read inside the scripts: the clocks of workers may differ. The times inside a
// Result document are its writer's.
package ledger
