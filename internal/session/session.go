// Package session keeps the sessions of browsers in Redis, so that every replica of
// the HTTP API knows who is signed in.
package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Store keeps sessions under tf:session:HASH. Only the SHA-256 of an id is stored: who reads Redis
// can take over no session. It is safe for concurrent use.
type Store struct{ rdb redis.UniversalClient }

// New returns a Store over rdb, which stays the caller's to close.
func New(rdb redis.UniversalClient) *Store { return &Store{rdb: rdb} }

// Create starts a session that ends by itself after ttl, and returns its secret id.
func (s *Store) Create(ctx context.Context, owner string, ttl time.Duration) (id string, err error) {
	id = rand.Text()
	if err := s.rdb.Set(ctx, key(id), owner, ttl).Err(); err != nil {
		return "", fmt.Errorf("create session: %w", err)
	}
	return id, nil
}

// Owner returns the owner that the session was created with, or ok false when there is no such session.
func (s *Store) Owner(ctx context.Context, id string) (owner string, ok bool, err error) {
	owner, err = s.rdb.Get(ctx, key(id)).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("read session: %w", err)
	}
	return owner, true, nil
}

// End ends a session. One that is not there is no error.
func (s *Store) End(ctx context.Context, id string) error {
	if err := s.rdb.Del(ctx, key(id)).Err(); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}

func key(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "tf:session:" + hex.EncodeToString(sum[:])
}
