package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// secretPrefix starts a secret in the form of Standard Webhooks.
const secretPrefix = "whsec_"

// The sizes a secret may have, in bytes.
const (
	minSecretBytes = 24
	maxSecretBytes = 64
)

// Secrets sign deliveries. Each delivery carries one signature for each, so that receivers can change over.
type Secrets [][]byte

// LoadSecrets reads a file of secrets, one on each line: whsec_ and base64.
func LoadSecrets(path string) (Secrets, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("webhook secrets: %w", err)
	}
	s, err := ParseSecrets(string(data))
	if err != nil {
		return nil, fmt.Errorf("webhook secrets: %s: %w", path, err)
	}
	return s, nil
}

// ParseSecrets reads the text of such a file. The error never quotes it.
func ParseSecrets(text string) (Secrets, error) {
	var all Secrets
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		encoded, ok := strings.CutPrefix(line, secretPrefix)
		secret, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(secret) < minSecretBytes || len(secret) > maxSecretBytes {
			return nil, fmt.Errorf("line %d: must be %s and the base64 of %d to %d random bytes", i+1, secretPrefix, minSecretBytes, maxSecretBytes)
		}
		all = append(all, secret)
	}
	if len(all) == 0 {
		return nil, errors.New("no secret is in it; make one with: echo whsec_$(head -c 32 /dev/urandom | base64)")
	}
	return all, nil
}

// Sign gives the value of the webhook-signature header.
func (s Secrets) Sign(id string, at time.Time, body []byte) string {
	signatures := make([]string, 0, len(s))
	for _, secret := range s {
		mac := hmac.New(sha256.New, secret)
		_, _ = mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + ".")) // A hash never fails.
		_, _ = mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(signatures, " ")
}
