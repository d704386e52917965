package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// memorySessions keeps sessions in memory.
type memorySessions struct {
	mu   sync.Mutex
	byID map[string]string
}

func (s *memorySessions) Create(_ context.Context, owner string, _ time.Duration) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[owner] = owner
	return owner, nil
}

func (s *memorySessions) Owner(_ context.Context, id string) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, ok := s.byID[id]
	return owner, ok, nil
}

func (s *memorySessions) End(context.Context, string) error { return nil }

// tokenFile is a file of tokens under a guard that follows it.
type tokenFile struct {
	t     *testing.T
	path  string
	guard *Guard
	log   *observer.ObservedLogs
}

func followed(t *testing.T, text string) *tokenFile {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	f := &tokenFile{t: t, path: filepath.Join(t.TempDir(), "tokens"), log: logs}
	f.write(text)
	tokens, err := LoadTokens(f.path)
	if err != nil {
		t.Fatal(err)
	}
	f.guard = NewGuard(tokens, &memorySessions{byID: map[string]string{}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.guard.Follow(ctx, f.path, zap.New(core)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return f
}

// write puts another file in the place of the one that is there, as editors and orchestrators do.
func (f *tokenFile) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path+".new", []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(f.path+".new", f.path); err != nil {
		f.t.Fatal(err)
	}
}

// until waits for a token to be let in, or not.
func (f *tokenFile) until(token string, in bool) {
	f.t.Helper()
	f.poll("the token", func() bool { _, err := f.guard.Token(token); return (err == nil) == in })
}

func (f *tokenFile) poll(what string, ok func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not after a minute; log: %v", what, f.log.All())
		}
		select {
		case <-f.t.Context().Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func mustToken(t *testing.T, name string, role Role) (token, line string) {
	t.Helper()
	token, line, err := NewToken(name, role, "")
	if err != nil {
		t.Fatal(err)
	}
	return token, line + "\n"
}

func TestFollow(t *testing.T) {
	t.Parallel()
	one, lineOne := mustToken(t, "one", RoleRead)
	two, lineTwo := mustToken(t, "two", RoleOperate)
	f := followed(t, lineOne)
	f.until(one, true)
	f.write(lineOne + lineTwo)
	f.until(two, true)
	f.until(one, true)
	f.write(lineTwo)
	f.until(one, false)

	// A slip of the keyboard locks nobody out, and is told of once.
	f.write(lineTwo + "three\n")
	f.poll("the log", func() bool { return f.log.FilterLevelExact(zap.ErrorLevel).Len() > 0 })
	f.until(two, true)
	f.write(lineOne)
	f.until(one, true)
	f.until(two, false)
	if n := f.log.FilterLevelExact(zap.ErrorLevel).Len(); n != 1 {
		t.Errorf("got %d errors in the log, want 1", n)
	}
	f.write("# nobody\n")
	f.until(one, false)
	if f.guard.Open() {
		t.Error("without any token everybody is let in")
	}
	for _, e := range f.log.All() {
		if text := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(text, two) || strings.Contains(text, "three") {
			t.Errorf("the log tells what stands in the file: %s", text)
		}
	}
}

// TestSessionsEndWithTheirToken gives a name to another token, as one does with a token that has leaked: who signed in with the old one
// is out.
func TestSessionsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	_, old := mustToken(t, "me", RoleOperate)
	next, line := mustToken(t, "me", RoleOperate)
	parse := func(text string) *Tokens {
		tokens, err := ParseTokens(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	g := NewGuard(parse(old), &memorySessions{byID: map[string]string{}})
	cookie, err := g.SignIn(t.Context(), Identity{Name: "me"}, true)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() error {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(cookie)
		_, err := g.Identify(r)
		return err
	}
	if err := ask(); err != nil {
		t.Errorf("signed in: %v", err)
	}
	g.replace(parse(line))
	if err := ask(); !errors.Is(err, ErrInvalid) {
		t.Errorf("after the change of the token: %v, want ErrInvalid", err)
	}
	if _, err := g.Token(next); err != nil {
		t.Errorf("the new token: %v", err)
	}
	if _, err := g.SignIn(t.Context(), Identity{Name: "gone"}, true); !errors.Is(err, ErrInvalid) {
		t.Errorf("signing in with a token that is gone: %v", err)
	}
}
