package ledger

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// Keys encrypts inputs and results before they are stored. It is immutable and
// safe for concurrent use. A nil Keys stores them as they are.
//
// A stored value that is encrypted is
//
//	"TFE1" | length of the key's id (1 byte) | id | nonce (12 bytes) | ciphertext and tag
//
// in AES-256-GCM, with the key of a job ("input" or "result", a colon, its id) as associated data: a value that
// is moved to another job does not open. What is not encrypted is read as well, so that encryption can be turned on
// while jobs are stored; it hides what is stored, and does not prove who stored it.
type Keys struct {
	first string // the id of the key that encrypts
	by    map[string]cipher.AEAD
}

const sealMark = "TFE1"

// sealOverhead is how many bytes longer than its content an encrypted value is at most.
const sealOverhead = len(sealMark) + 1 + maxKeyID + 12 + 16

const maxKeyID = 32

var keyIDs = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,32}$`)

// The kinds of stored values, as associated data.
const (
	sealedInput  = "input"
	sealedResult = "result"
)

// ReadKeys reads a file of keys, one a line: an id, a space, and 32 bytes in base64. Empty lines and those that
// begin with # are skipped. The first key encrypts, all of them decrypt: to change keys, put the new one first, and
// take the old one out when nothing that it encrypted is stored any more.
func ReadKeys(path string) (*Keys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	defer func() { _ = f.Close() }() // opened to read
	const most = 64 << 10            // hundreds of keys
	k := &Keys{by: map[string]cipher.AEAD{}}
	lines := bufio.NewScanner(io.LimitReader(f, most))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// No part of a line is shown: it may be the secret.
		if err := k.add(line); err != nil {
			return nil, fmt.Errorf("key file %s: line %d: %w", path, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	if k.first == "" {
		return nil, fmt.Errorf("key file %s: it has no key", path)
	}
	return k, nil
}

func (k *Keys) add(line string) error {
	id, text, ok := strings.Cut(line, " ")
	if !ok || !keyIDs.MatchString(id) {
		return errors.New("want an id of 1 to 32 letters, digits, or any of _ . -, a space, and the key")
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(secret) != 32 {
		return errors.New("the key must be 32 bytes in base64")
	}
	if k.by[id] != nil {
		return errors.New("two keys have this id")
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return err
	}
	if k.first == "" {
		k.first = id
	}
	k.by[id] = aead
	return nil
}

// seal encrypts a value of a job.
func (k *Keys) seal(kind, id string, blob []byte) []byte {
	if k == nil {
		return blob
	}
	out := make([]byte, 0, len(blob)+sealOverhead)
	out = append(out, sealMark...)
	out = append(out, byte(len(k.first)))
	out = append(out, k.first...)
	return k.by[k.first].Seal(out, nil, blob, []byte(kind+":"+id))
}

// open decrypts a value of a job. A value whose key is not here is no damage: another command may have it.
func (k *Keys) open(kind, id string, blob []byte) ([]byte, error) {
	rest, sealed := bytes.CutPrefix(blob, []byte(sealMark))
	if !sealed {
		return blob, nil
	}
	if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
		return nil, corrupt("%s: it is cut", kind)
	}
	end := 1 + int(rest[0])
	name, text := string(rest[1:end]), rest[end:]
	if !keyIDs.MatchString(name) {
		return nil, corrupt("%s: its key has no id", kind)
	}
	if k == nil || k.by[name] == nil {
		return nil, fmt.Errorf("%s: it is encrypted with the key %s, which is not here: %w", kind, name, ErrNoKey)
	}
	plain, err := k.by[name].Open(nil, nil, text, []byte(kind+":"+id))
	if err != nil {
		return nil, corrupt("%s: it does not open with the key %s", kind, name)
	}
	return plain, nil
}
