package ops

import (
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// The forms of a log.
const (
	// LogJSON is one JSON object a line, for machines.
	LogJSON = "json"
	// LogConsole is one readable line an entry.
	LogConsole = "console"
)

// LogConfig says how to log.
type LogConfig struct {
	// Format is LogJSON or LogConsole.
	Format string
	// Level is the least severe level written: debug, info, warn or error.
	Level string
	// Output takes the lines. Writes are serialized.
	Output zapcore.WriteSyncer
}

// NewLogger returns a logger. Times are UTC in RFC 3339 with milliseconds,
// durations are strings such as "1.5s". Stack traces are left out: errors say
// what they went through. The error names the setting that is wrong.
func NewLogger(cfg LogConfig) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(cfg.Level)
	if err != nil || cfg.Level == "" || level > zapcore.ErrorLevel {
		return nil, fmt.Errorf("log level: must be debug, info, warn or error, got %q", cfg.Level)
	}
	enc := zap.NewProductionEncoderConfig()
	enc.TimeKey, enc.MessageKey = "time", "message"
	enc.EncodeTime = func(t time.Time, out zapcore.PrimitiveArrayEncoder) {
		out.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	enc.EncodeDuration = zapcore.StringDurationEncoder
	var encoder zapcore.Encoder
	switch cfg.Format {
	case LogJSON:
		encoder = zapcore.NewJSONEncoder(enc)
	case LogConsole:
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(enc)
	default:
		return nil, fmt.Errorf("log format: must be json or console, got %q", cfg.Format)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(cfg.Output), level)), nil
}
