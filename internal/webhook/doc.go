// Package webhook tells callers by HTTP that their jobs have ended.
//
// A callback is registered when its job is submitted, and kept in Redis until it was answered
// or given up. Any replica of the HTTP API delivers it: the end of a job is heard on the ledger's channel, and
// what was missed there is found by looking again. Deliveries are at least once, signed as
// Standard Webhooks (standardwebhooks.com) wants it, and carry the same event id each time.
//
// Where a callback goes is chosen by a stranger, so: hosts are on a list of the operator's, the address that is
// really dialed is checked at each attempt, redirects are not followed, no proxy is used, and answers are not read.
//
// # Keys
//
//	tf:{webhooks}:waiting   zset  ids of open jobs with a callback; the score is when to look at one without having been told
//	tf:{webhooks}:due       zset  ids of ended jobs whose callback is to be sent; the score is when
//	tf:{webhooks}:job:ID    hash  one delivery
package webhook
