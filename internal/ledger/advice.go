package ledger

import (
	"crypto/tls"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Advice says in one sentence, without a full stop, what a person can do about a Redis that cannot be used. err is that of
// CheckServer, or of the first command that was sent; a reply of Redis is told apart from a Redis that does not answer.
func Advice(err error) string {
	var certificate *tls.CertificateVerificationError
	var reply redis.Error
	switch {
	case errors.As(err, &certificate):
		return "name the file of the authority that issued its certificate in SSL_CERT_FILE"
	case starts(err, "WRONGPASS", "NOAUTH", "AUTH ", "invalid password"):
		return "check the user and the password: in the URL of --redis, or in the file of --redis-password-file"
	case starts(err, "NOPERM"):
		return "give its user the rights that deploy/redis/users.sh prints"
	case starts(err, "DB index is out of range", "invalid DB index", "SELECT is not allowed in cluster mode"):
		return "the number at the end of the URL of --redis is the database: leave it out, or name one that this Redis has"
	case starts(err, "OOM"):
		return "it is full: raise its maxmemory, or keep results for a shorter time"
	case starts(err, "LOADING"):
		return "it is reading its data: try again in a moment"
	case errors.As(err, &reply):
		return "see what it needs in docs/operations.md"
	}
	return "start Redis, or name another with --redis; to try things out: worker --redis embedded"
}

// starts tells whether err is a reply of Redis that starts in one of these ways.
func starts(err error, ways ...string) bool {
	for _, way := range ways {
		if redis.HasErrorPrefix(err, way) {
			return true
		}
	}
	return false
}

// Reason is the text of an error without a full stop at its end, which replies of Redis have or have not, for a sentence
// that goes on.
func Reason(err error) string { return strings.TrimRight(err.Error(), ". ") }
