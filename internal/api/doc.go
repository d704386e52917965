// Package api serves the fleet over HTTP: submitting and awaiting traces, batches, dead
// letters and webhooks under /api/v1, the pages for people, and asynqmon.
//
// One table, operations, holds every operation with its path, its role, its parameters and its answers. The
// router, the check of rights, the check of parameters and the OpenAPI document are all made
// from it, so that they cannot disagree. A Job document is read by the one strict codec of package job.
//
// Any number of replicas serve one fleet: what they share is in Redis. A wait holds no thread of
// Redis and polls nothing; completion is heard on the ledger's channel, which all waits of a process share.
package api
