package queue

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// QuietRedis keeps the Redis library from writing to standard error of its own accord. What it says there, that a
// connection was lost and is made anew, comes back as the error of a call wherever it matters. It changes the whole process,
// and must be called before the first client is made: main calls it, nobody else.
func QuietRedis() { redis.SetLogger(silence{}) }

// silence drops the messages of the Redis library.
type silence struct{}

// Printf does nothing.
func (silence) Printf(context.Context, string, ...any) {}
