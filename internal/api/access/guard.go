package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// CookieName is the session cookie. Its prefix is left out on purpose: __Host- needs HTTPS, and
// loopback has none; SameSite, HttpOnly and Path do the work.
const CookieName = "tracefleet_session"

// SessionTTL is how long a browser stays signed in.
const SessionTTL = 12 * time.Hour

// maxCredential bounds what is looked at as a token or a session.
const maxCredential = 256

// Sessions keeps who is signed in, for all replicas together.
type Sessions interface {
	// Create starts a session of an owner and returns its secret id.
	Create(ctx context.Context, owner string, ttl time.Duration) (id string, err error)
	// Owner returns the owner that the session was created with, or ok false when there is no such session.
	Owner(ctx context.Context, id string) (owner string, ok bool, err error)
	// End ends a session. One that is not there is no error.
	End(ctx context.Context, id string) error
}

// The errors of Identify. They say nothing about which part of a credential was wrong.
var (
	// ErrMissing means that the request has no credential.
	ErrMissing = errors.New("no token was sent")
	// ErrInvalid means that the credential is not, or no longer, known.
	ErrInvalid = errors.New("the token is not known")
	// ErrCrossOrigin means that another site made the browser send the request.
	ErrCrossOrigin = errors.New("the request comes from another site")
	// ErrHost means that the request was made to another name than the server's own.
	ErrHost = errors.New("the Host header is not a loopback address")
)

// Guard tells who makes a request. It is safe for concurrent use.
type Guard struct {
	tokens   atomic.Pointer[Tokens]
	sessions Sessions
	origin   *http.CrossOriginProtection
}

// NewGuard returns a Guard. Without tokens, which is for loopback only, everybody is Anonymous.
func NewGuard(tokens *Tokens, sessions Sessions) *Guard {
	g := &Guard{sessions: sessions, origin: http.NewCrossOriginProtection()}
	g.tokens.Store(tokens)
	return g
}

// Open tells whether no tokens are in use. That never changes.
func (g *Guard) Open() bool { return g.tokens.Load() == nil }

// replace puts other tokens into use, and tells whether they differ.
func (g *Guard) replace(t *Tokens) (changed bool) {
	return !slices.Equal(g.tokens.Swap(t).entries, t.entries)
}

// Identify finds out who makes the request. A bearer token comes first; a session cookie counts only in
// a request that the browser itself vouches for.
// Errors: ErrMissing, ErrInvalid, ErrCrossOrigin, ErrHost; others are those of the store of sessions.
func (g *Guard) Identify(r *http.Request) (Identity, error) {
	if g.Open() {
		// A web page cannot read from us, but it may send, and a name of its own may lead to 127.0.0.1.
		if !loopbackHost(r.Host) {
			return Identity{}, ErrHost
		}
		if g.origin.Check(r) != nil {
			return Identity{}, ErrCrossOrigin
		}
		return Anonymous(), nil
	}
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		token = strings.TrimSpace(token)
		if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxCredential {
			return Identity{}, ErrInvalid
		}
		return g.Token(token)
	}
	cookie, err := r.Cookie(CookieName)
	if err != nil || cookie.Value == "" {
		return Identity{}, ErrMissing
	}
	if g.origin.Check(r) != nil {
		return Identity{}, ErrCrossOrigin
	}
	if len(cookie.Value) > maxCredential {
		return Identity{}, ErrInvalid
	}
	owner, ok, err := g.sessions.Owner(r.Context(), cookie.Value)
	if err != nil {
		return Identity{}, fmt.Errorf("look up the session: %w", err)
	}
	if !ok {
		return Identity{}, ErrInvalid
	}
	identity, ok := g.tokens.Load().byOwner(owner)
	if !ok {
		return Identity{}, ErrInvalid
	}
	return identity, nil
}

// Token finds the identity of a token.
// Errors: ErrInvalid.
func (g *Guard) Token(token string) (Identity, error) {
	if g.Open() || len(token) > maxCredential {
		return Identity{}, ErrInvalid
	}
	identity, ok := g.tokens.Load().Authenticate(token)
	if !ok {
		return Identity{}, ErrInvalid
	}
	return identity, nil
}

// SignIn starts a session and returns its cookie. secure is for connections over TLS.
// Errors: ErrInvalid when the token is gone; others are those of the store of sessions.
func (g *Guard) SignIn(ctx context.Context, who Identity, secure bool) (*http.Cookie, error) {
	owner, ok := g.tokens.Load().owner(who.Name)
	if !ok {
		return nil, ErrInvalid
	}
	id, err := g.sessions.Create(ctx, owner, SessionTTL)
	if err != nil {
		return nil, fmt.Errorf("start a session: %w", err)
	}
	c := cookie(id, secure)
	c.MaxAge = int(SessionTTL / time.Second)
	return c, nil
}

// SignOut ends the session of the request, if any, and returns the cookie that makes the browser forget it.
func (g *Guard) SignOut(r *http.Request, secure bool) (*http.Cookie, error) {
	gone := cookie("", secure)
	gone.MaxAge = -1
	c, err := r.Cookie(CookieName)
	if err != nil || g.Open() {
		return gone, nil
	}
	if err := g.sessions.End(r.Context(), c.Value); err != nil {
		return gone, fmt.Errorf("end a session: %w", err)
	}
	return gone, nil
}

// SameOrigin checks that no other site made the browser send the request.
// Errors: ErrCrossOrigin.
func (g *Guard) SameOrigin(r *http.Request) error {
	if g.origin.Check(r) != nil {
		return ErrCrossOrigin
	}
	return nil
}

func cookie(value string, secure bool) *http.Cookie {
	return &http.Cookie{
		Name: CookieName, Value: value, Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	}
}
