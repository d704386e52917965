package access

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// TokenPrefix starts every token, so that scanners for leaked secrets know it.
const TokenPrefix = "tf_"

// allTenants stands in the file of tokens for a token that is not bound to a tenant.
const allTenants = "*"

// Bounds of the file of tokens.
const (
	maxTokens    = 10_000
	maxTokenFile = 4 << 20
)

// ErrNoTokens means that a file of tokens has none.
var ErrNoTokens = errors.New("no token is in it; make one with: enqueuer token")

var (
	namePattern   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	tenantPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._:-]{0,63}$`)
)

// Tokens are the tokens that are in use. They may be read by several goroutines at once.
type Tokens struct{ entries []entry }

type entry struct {
	hash     [sha256.Size]byte
	identity Identity
	// owner is what a session keeps of the token: its name and a hash of its hash, enough to know the token again, and nothing to
	// sign in with.
	owner string
}

// NewToken makes a token and the line of the file that lets it in. An empty tenant is every tenant.
func NewToken(name string, role Role, tenant string) (token, line string, err error) {
	if tenant == "" {
		tenant = allTenants
	}
	if err := checkNames(name, tenant); err != nil {
		return "", "", err
	}
	secret := make([]byte, 32)
	// crypto/rand.Read never fails: the program ends when the kernel gives no randomness.
	_, _ = rand.Read(secret)
	token = TokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	hash := sha256.Sum256([]byte(token))
	return token, fmt.Sprintf("%s %s %s sha256:%s", name, role, tenant, hex.EncodeToString(hash[:])), nil
}

func checkNames(name, tenant string) error {
	if !namePattern.MatchString(name) {
		return errors.New("name: must be 1 to 64 of the characters A-Z a-z 0-9 . _ -")
	}
	if tenant != allTenants && !tenantPattern.MatchString(tenant) {
		return errors.New("tenant: must be 1 to 64 of the characters A-Z a-z 0-9 . _ : -, or * for every tenant")
	}
	return nil
}

// LoadTokens reads a file of tokens. Everybody's right to write it is refused, because who
// writes it can let themselves in.
// Errors: ErrNoTokens; those of the file system, and those of ParseTokens.
func LoadTokens(path string) (*Tokens, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read from
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o002 != 0 {
		return nil, fmt.Errorf("tokens: everybody may write %s; run: chmod 600 %s", path, path)
	}
	t, err := ParseTokens(file)
	if err != nil {
		return nil, fmt.Errorf("tokens: %s: %w", path, err)
	}
	return t, nil
}

// ParseTokens reads tokens, one on each line: name, role, tenant (* for every tenant) and
// sha256:HEX, parted by white space. Empty lines and lines that begin with # are skipped. Names and hashes
// are unique. The error names the line; it never quotes one, because somebody may have put a token there.
func ParseTokens(r io.Reader) (*Tokens, error) {
	t := &Tokens{}
	names, hashes := map[string]bool{}, map[[sha256.Size]byte]bool{}
	scanner := bufio.NewScanner(io.LimitReader(r, maxTokenFile))
	for number := 1; scanner.Scan(); number++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		e, err := parseEntry(line)
		switch {
		case err == nil && names[e.identity.Name]:
			err = errors.New("the name is taken by an earlier line")
		case err == nil && hashes[e.hash]:
			err = errors.New("the token is that of an earlier line")
		case err == nil && len(t.entries) == maxTokens:
			err = fmt.Errorf("more than %d tokens", maxTokens)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		names[e.identity.Name], hashes[e.hash] = true, true
		t.entries = append(t.entries, e)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if len(t.entries) == 0 {
		return nil, ErrNoTokens
	}
	return t, nil
}

func parseEntry(line string) (entry, error) {
	f := strings.Fields(line)
	if len(f) != 4 {
		return entry{}, errors.New("must be: name role tenant sha256:HEX")
	}
	role, err := ParseRole(f[1])
	if err != nil {
		return entry{}, errors.New("role: must be read, submit or operate")
	}
	if err := checkNames(f[0], f[2]); err != nil {
		return entry{}, err
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(f[3], "sha256:"))
	if err != nil || !strings.HasPrefix(f[3], "sha256:") || len(raw) != sha256.Size {
		return entry{}, errors.New("the hash must be sha256: and 64 hexadecimal digits")
	}
	e := entry{hash: [sha256.Size]byte(raw), identity: Identity{Name: f[0], Role: role, Tenant: f[2]}}
	mark := sha256.Sum256(raw)
	e.owner = f[0] + " " + hex.EncodeToString(mark[:8])
	if f[2] == allTenants {
		e.identity.Tenant, e.identity.AllTenants = "", true
	}
	return e, nil
}

// Authenticate finds the identity of a token. Every entry is compared, each in constant time, so that the time
// it takes says nothing about the tokens.
func (t *Tokens) Authenticate(token string) (Identity, bool) {
	hash := sha256.Sum256([]byte(token))
	found := -1
	for i := range t.entries {
		if subtle.ConstantTimeCompare(hash[:], t.entries[i].hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Identity{}, false
	}
	return t.entries[found].identity, true
}

// owner is what a session keeps of the token with a name.
func (t *Tokens) owner(name string) (string, bool) {
	for i := range t.entries {
		if t.entries[i].identity.Name == name {
			return t.entries[i].owner, true
		}
	}
	return "", false
}

// byOwner finds the identity of the token of a session. A token that is taken out of the file ends its sessions, also when
// another token of the same name is put in.
func (t *Tokens) byOwner(owner string) (Identity, bool) {
	for i := range t.entries {
		if t.entries[i].owner == owner {
			return t.entries[i].identity, true
		}
	}
	return Identity{}, false
}

// Has tells whether a token has the name.
func (t *Tokens) Has(name string) bool {
	_, ok := t.owner(name)
	return ok
}

// Len is how many tokens there are.
func (t *Tokens) Len() int { return len(t.entries) }
