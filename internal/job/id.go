package job

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// NewID returns an id for a job that came without one: a UUID of version 7
// (RFC 9562), so that ids sort by the millisecond they were made in and cannot be guessed.
func NewID(now time.Time) string {
	var u [16]byte
	// crypto/rand.Read never fails: the program ends when the kernel gives no randomness.
	_, _ = rand.Read(u[6:])
	ms := now.UnixMilli()
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	s := hex.EncodeToString(u[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// ValidID tells whether id could be the id of a job. Others need not be looked up.
func ValidID(id string) bool {
	return id != "" && len(id) <= MaxIDBytes && keyPattern.MatchString(id)
}
