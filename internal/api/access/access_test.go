package access

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTokenRoundTrip(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	var file strings.Builder
	tokens := map[string]Identity{}
	for _, want := range []Identity{
		{Name: "a", Role: RoleRead, AllTenants: true}, {Name: "b", Role: RoleSubmit, Tenant: "ada"}, {Name: "c.d-e_f", Role: RoleOperate, Tenant: "x:y"},
	} {
		token, line, err := NewToken(want.Name, want.Role, want.Tenant)
		if err != nil || seen[token] || len(token) != len(TokenPrefix)+43 || strings.Contains(line, token) {
			t.Fatalf("%s: got %q, %q, %v", want.Name, token, line, err)
		}
		seen[token] = true
		tokens[token] = want
		file.WriteString("\n# comment\n  " + line + "  \n")
	}
	parsed, err := ParseTokens(strings.NewReader(file.String()))
	if err != nil || parsed.Len() != 3 {
		t.Fatalf("got %v", err)
	}
	for token, want := range tokens {
		if got, ok := parsed.Authenticate(token); !ok || got != want {
			t.Errorf("got %+v, %t, want %+v", got, ok, want)
		}
		if got, ok := parsed.Authenticate(token[:len(token)-1]); ok {
			t.Errorf("a part of a token is %+v", got)
		}
	}
}

func TestParseTokensRefuses(t *testing.T) {
	t.Parallel()
	hash := "sha256:" + strings.Repeat("ab", 32)
	for name, text := range map[string]string{
		"nothing": "", "comment": "# x\n", "short": "a read " + hash, "long": "a read * " + hash + " x", "role": "a root * " + hash,
		"name": "a/b read * " + hash, "tenant": "a read b/c " + hash, "hash": "a read * " + hash[:40], "plain hash": "a read * " + hash[7:],
		"same name": "a read * " + hash + "\na read * sha256:" + strings.Repeat("cd", 32), "same token": "a read * " + hash + "\nb read * " + hash,
	} {
		if _, err := ParseTokens(strings.NewReader(text)); err == nil || strings.Contains(err.Error(), "abab") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("a read * "+hash), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadTokens(path); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadTokens(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that everybody writes: %v", err)
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add("a read * sha256:" + strings.Repeat("ab", 32))
	f.Add("# x\n\n a  submit\tb sha256:")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := ParseTokens(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, e := range tokens.entries {
			if e.identity.Role == RoleNone || e.identity.AllTenants == (e.identity.Tenant != "") {
				t.Errorf("%+v was taken", e.identity)
			}
		}
	})
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:80": true, "localhost:80": true, "[::1]:80": true, "127.9.9.9:1": true, ":80": false, "0.0.0.0:80": false, "[::]:80": false,
		"10.0.0.1:80": false, "localhost": false, "evil.example:80": false, "127.0.0.1.evil.example:80": false, "[::ffff:127.0.0.1]:80": true,
	} {
		if got := Loopback(addr); got != want {
			t.Errorf("%s: got %t", addr, got)
		}
	}
	for host, want := range map[string]bool{"localhost": true, "LOCALHOST:1": true, "[::1]": true, "127.0.0.1": true, "evil.example": false, "": false, "localhost.evil.example": false} {
		if got := loopbackHost(host); got != want {
			t.Errorf("host %q: got %t", host, got)
		}
	}
}

// brokenSessions is a store that cannot be reached.
type brokenSessions struct{}

var errBroken = errors.New("no route")

func (brokenSessions) Create(context.Context, string, time.Duration) (string, error) {
	return "", errBroken
}
func (brokenSessions) Owner(context.Context, string) (string, bool, error) {
	return "", false, errBroken
}
func (brokenSessions) End(context.Context, string) error { return errBroken }

func TestBrokenStoreLetsNobodyIn(t *testing.T) {
	t.Parallel()
	_, line, err := NewToken("a", RoleOperate, "")
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := ParseTokens(strings.NewReader(line))
	if err != nil {
		t.Fatal(err)
	}
	g := NewGuard(tokens, brokenSessions{})
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Cookie", CookieName+"=x")
	if who, err := g.Identify(r); !errors.Is(err, errBroken) || who.Role != RoleNone {
		t.Errorf("got %+v, %v", who, err)
	}
	if _, err := g.SignIn(t.Context(), Identity{Name: "a"}, true); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	for i, role := range Roles() {
		parsed, err := ParseRole(role.String())
		if err != nil || parsed != role {
			t.Errorf("%s: got %s, %v", role, parsed, err)
		}
		for k, other := range Roles() {
			if got := (Identity{Role: role}).May(other); got != (i >= k) {
				t.Errorf("%s may %s: %t", role, other, got)
			}
		}
	}
	if _, err := ParseRole("none"); err == nil {
		t.Error("none is a role of the file")
	}
}
