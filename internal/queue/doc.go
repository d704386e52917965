// Package queue carries jobs from those who submit them to the workers, with
// asynq over Redis. It is the only importer of asynq, and nothing of asynq shows in its API.
//
// A task holds no code, only an Envelope: what the job is lives in the ledger,
// which is also the truth about it. The queue delivers at least once: a handler
// may be called twice for a job, even at the same time, and the ledger's fence makes that
// harmless.
//
// # What asynq v0.26.0 does wrong, and where it is put right
//
//   - Its retries of a failed acknowledgement use a canceled context, so a short
//     loss of Redis runs a finished job again: hook.go.
//   - It asks again at once when a dequeue is answered with an error: hook.go.
//   - It polls; an idle worker notices a job after 0.9 s: wake.go.
//   - It asks every queue, one after the other, and fetches one task at a time: scout.go and basket.go.
//   - It stores a result with a command of its own: reports.go.
//   - It gives a slot away while the handler still runs: slots.go.
//   - It puts a task back at shutdown before its handler has ended: drain in consumer.go.
//   - It archives a task at its last attempt whatever the error says: retry.go
//     counts attempts itself and leaves asynq one more than it needs.
//   - It notices a dead worker after 55-127 s, and an archived or completed task
//     blocks its id: Producer.Ensure in ensure.go.
//   - It forgets to list a queue after data was lost: Consumer lists its queues every minute.
//   - Its own cancellation becomes a retry: it is never used.
//
// Each has a test against a real Redis. Those of the hook have a control beside them, which shows the
// fault with the remedy off: when a control fails after an upgrade, its remedy can go.
//
// # Keys
//
// asynq's keys are asynq's (asynq:*). This package adds tf:wake, a list of at most
// 64 wake-up tokens with a TTL.
package queue
