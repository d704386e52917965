package access

import (
	"context"
	"errors"
	"os"
	"time"

	"go.uber.org/zap"
)

// followEvery is how often the file of tokens is looked at.
const followEvery = 2 * time.Second

// Follow lets in whom the file of tokens lets in, as it changes, until ctx ends: it looks at the file every two seconds. A line that is
// taken out ends the token and its sessions; a file without any token lets nobody in. A file that cannot be read, or in which a
// line is wrong, changes nothing: that is logged once, and again when the reason is another one. log must not be nil.
func (g *Guard) Follow(ctx context.Context, path string, log *zap.Logger) error {
	f := follower{guard: g, path: path, log: log}
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		f.look()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// follower remembers what was seen of a file.
type follower struct {
	guard *Guard
	path  string
	log   *zap.Logger

	seen   os.FileInfo
	failed string
}

// look reads the file when it is another than before.
func (f *follower) look() {
	info, err := os.Stat(f.path)
	if err == nil && f.seen != nil && os.SameFile(info, f.seen) && info.ModTime().Equal(f.seen.ModTime()) && info.Size() == f.seen.Size() &&
		info.Mode() == f.seen.Mode() && f.failed == "" {
		return
	}
	t, err := LoadTokens(f.path)
	if errors.Is(err, ErrNoTokens) {
		t, err = &Tokens{}, nil
	}
	if err != nil {
		if f.failed != err.Error() {
			f.failed = err.Error()
			f.log.Error("the file of tokens cannot be used; those that were read before stay in use", zap.Error(err))
		}
		return
	}
	changed := f.guard.replace(t)
	f.seen, f.failed = info, ""
	if changed {
		f.log.Info("the file of tokens was read again", zap.Int("tokens", t.Len()))
	}
}
