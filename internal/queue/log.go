package queue

import (
	"fmt"

	"go.uber.org/zap"
)

// asynqLogger writes asynq's messages to our log. They come as ready texts. What asynq calls
// fatal is an error here: no library ends our process.
type asynqLogger struct{ log *zap.Logger }

// Debug is asynq's chatter.
func (l asynqLogger) Debug(args ...any) { l.log.Debug("asynq", message(args)) }

// Info is about asynq's own life, of no interest to operators.
func (l asynqLogger) Info(args ...any) { l.log.Debug("asynq", message(args)) }

// Warn is what asynq will try again.
func (l asynqLogger) Warn(args ...any) { l.log.Warn("asynq", message(args)) }

// Error is what asynq could not do.
func (l asynqLogger) Error(args ...any) { l.log.Error("asynq", message(args)) }

// Fatal is logged as an error.
func (l asynqLogger) Fatal(args ...any) { l.log.Error("asynq", message(args)) }

func message(args []any) zap.Field { return zap.String("text", oneLine(fmt.Sprint(args...), 1000)) }
