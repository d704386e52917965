// Package ticket makes the task of a job, which the queue carries, from what the ledger knows of it.
package ticket

import (
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
)

// Of is the envelope of the task of a job. It holds what finds the task (the id, the tenant, and how many of its jobs were open
// before it), what an operator sees of it, and since when the job is queued.
func Of(e ledger.Entry) queue.Envelope {
	return queue.Envelope{
		V: queue.EnvelopeVersion, ID: e.ID, Tenant: e.Tenant, Name: e.Name, Bytes: e.InputBytes, SHA256: e.Digest, Ahead: e.Ahead, QueuedAt: e.QueuedAt,
	}
}
