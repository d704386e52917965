// Package roster keeps, in Redis, which workers live, and what jobs they take.
//
// A worker joins under its name, which no other live worker of its fleet may have: at its start a worker removes the sandboxes
// that an earlier life of it has left, which it knows by the name, and of two that live one would remove those of the other.
//
// It then offers to run jobs up to some limits. Any worker may be given any job, so what all of them take is what the front
// ends can promise: Board and Follower tell it.
//
//	tf:worker:{fleet}:{name}   string   token of the worker that has the name (the braces are not in the key)
//	tf:workers                 zset     "fleet name limits" of each worker that takes jobs; the score is when that is no longer so
package roster
