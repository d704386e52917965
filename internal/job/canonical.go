package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
)

// canonical holds what defines a run: two jobs that agree in it give the same
// result as far as the program itself is deterministic. The tenant belongs to
// it so that nobody is given another tenant's job. Left out are the id, which is
// what is being compared by, and what only says how the job is handled: queue,
// name, labels and retention.
type canonical struct {
	Language   string            `json:"language"`
	Entrypoint string            `json:"entrypoint"`
	Files      map[string]string `json:"files"`
	Stdin      string            `json:"stdin"`
	Args       []string          `json:"args"`
	Limits     Limits            `json:"limits"`
	Trace      TraceOptions      `json:"trace"`
	Tenant     string            `json:"tenant"`
}

// Canonical returns the part of j that defines its run as JSON in one fixed
// form: defaults filled in, keys in the order of the type, maps sorted. Its bytes must never change
// for the same job, because digests of it are kept in Redis.
func (j Job) Canonical() []byte {
	j = j.withDefaults()
	return encode(canonical{
		Language: j.Language, Entrypoint: j.Entrypoint, Files: j.Files, Stdin: j.Stdin,
		Args: j.Args, Limits: j.Limits, Trace: j.Trace, Tenant: j.Tenant,
	})
}

// Digest returns the SHA-256 of Canonical in hexadecimal. The same id with
// another digest is another job, and refused.
func (j Job) Digest() string {
	sum := sha256.Sum256(j.Canonical())
	return hex.EncodeToString(sum[:])
}

// encode writes v as JSON on one line. "<module>" stays readable: the documents
// are files, not parts of web pages. The types it is called with hold strings and integers
// only, which always encode.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
