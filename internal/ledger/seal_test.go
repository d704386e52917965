package ledger

import (
	"bytes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

// keyLine is a line of a key file whose key is 32 times the same byte.
func keyLine(id string, b byte) string {
	return id + " " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) + "\n"
}

func keyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func keys(t *testing.T, text string) *Keys {
	t.Helper()
	k, err := ReadKeys(keyFile(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestReadKeysRefuses(t *testing.T) {
	t.Parallel()
	const secret = "c2VjcmV0c2VjcmV0"
	for name, text := range map[string]string{
		"nothing": "", "comments only": "# none\n\n", "no key": "2026\n", "a short key": "2026 " + secret + "\n", "no base64": "2026 " + secret + "!\n",
		"two of a name": keyLine("a", 1) + keyLine("a", 2), "a name with a slash": keyLine("a/b", 1), "a long name": keyLine(strings.Repeat("a", 33), 1),
	} {
		if k, err := ReadKeys(keyFile(t, text)); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v, error %v; want an error without the key", name, k, err)
		}
	}
	if _, err := ReadKeys(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("got no error for a file that is not there")
	}
}

func TestSealedValues(t *testing.T) {
	t.Parallel()
	k := keys(t, "# now\n"+keyLine("2026", 1)+"\n"+keyLine("2025", 2))
	blob := []byte("a program")
	sealed := k.seal(sealedInput, "a", blob)
	if bytes.Contains(sealed, []byte("program")) || len(sealed) > len(blob)+sealOverhead || !bytes.HasPrefix(sealed, []byte("TFE1\x042026")) {
		t.Errorf("got %q, want it encrypted with the first key, named, and not much longer", sealed)
	}
	if bytes.Equal(sealed, k.seal(sealedInput, "a", blob)) {
		t.Error("the same value was encrypted in the same way twice")
	}
	if got, err := k.open(sealedInput, "a", sealed); err != nil || !bytes.Equal(got, blob) {
		t.Errorf("got %q, error %v; want what was sealed", got, err)
	}
	if got, err := k.open(sealedInput, "a", blob); err != nil || !bytes.Equal(got, blob) {
		t.Errorf("got %q, error %v of a value that is not encrypted; want it as it is", got, err)
	}
	old := keys(t, keyLine("2025", 2)).seal(sealedInput, "a", blob)
	if got, err := k.open(sealedInput, "a", old); err != nil || !bytes.Equal(got, blob) {
		t.Errorf("got %q, error %v; want the old key to open as well", got, err)
	}
	for name, c := range map[string]struct {
		keys     *Keys
		kind, id string
		blob     []byte
		want     error
	}{
		"another job":            {k, sealedInput, "b", sealed, ErrCorrupt},
		"another kind":           {k, sealedResult, "a", sealed, ErrCorrupt},
		"no keys":                {nil, sealedInput, "a", sealed, ErrNoKey},
		"other keys":             {keys(t, keyLine("2024", 3)), sealedInput, "a", sealed, ErrNoKey},
		"another key's name":     {keys(t, keyLine("2026", 9)), sealedInput, "a", sealed, ErrCorrupt},
		"a bit turned":           {k, sealedInput, "a", append(bytes.Clone(sealed[:len(sealed)-1]), sealed[len(sealed)-1]^1), ErrCorrupt},
		"cut":                    {k, sealedInput, "a", sealed[:12], ErrCorrupt},
		"cut in the name":        {k, sealedInput, "a", sealed[:6], ErrCorrupt},
		"only the mark":          {k, sealedInput, "a", sealed[:4], ErrCorrupt},
		"a name of 255":          {k, sealedInput, "a", append([]byte("TFE1\xff"), bytes.Repeat([]byte("x"), 300)...), ErrCorrupt},
		"a name that bites":      {k, sealedInput, "a", []byte("TFE1\x02\x1b]rest"), ErrCorrupt},
		"a name without content": {k, sealedInput, "a", []byte("TFE1\x042026"), ErrCorrupt},
	} {
		if got, err := c.keys.open(c.kind, c.id, c.blob); !errors.Is(err, c.want) {
			t.Errorf("%s: got %q, error %v; want %v", name, got, err, c.want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	k := &Keys{by: map[string]cipher.AEAD{}}
	if err := k.add(strings.TrimSpace(keyLine("one", 1))); err != nil {
		f.Fatal(err)
	}
	f.Add(k.seal(sealedResult, "a", []byte("text")))
	f.Add([]byte("TFE1\xff"))
	f.Fuzz(func(t *testing.T, blob []byte) {
		got, err := k.open(sealedResult, "a", blob)
		switch {
		case err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNoKey):
			t.Errorf("got error %v", err)
		case err == nil && bytes.HasPrefix(blob, []byte(sealMark)) && !bytes.Equal(got, []byte("text")):
			t.Errorf("%q opened to %q", blob, got)
		}
	})
}

// Nothing of a program or its output can be read in Redis, and both come back through the ledger, also after the keys were changed.
func TestEncryptedLedger(t *testing.T) {
	first := keys(t, keyLine("one", 1))
	onBoth(t, Config{Keys: first}, func(t *testing.T, l *Ledger, rdb redis.UniversalClient) {
		ctx := t.Context()
		plain := newLedger(t, rdb, Config{})
		old := testJob("stored-before")
		if _, _, err := plain.Create(ctx, old); err != nil {
			t.Fatal(err)
		}
		j := testJob("a")
		j.Files = map[string]string{"main.py": "marker = 'zq7marker'\n"}
		if _, created, err := l.Create(ctx, j); err != nil || !created {
			t.Fatalf("created %v, error %v", created, err)
		}
		if _, created, err := l.Create(ctx, j); err != nil || created {
			t.Errorf("again: created %v, error %v; want the same job", created, err)
		}
		c := mustClaim(t, l, "a")
		if got, err := l.ClaimedInput(ctx, c); err != nil || got.Files["main.py"] != j.Files["main.py"] {
			t.Errorf("got files %v, error %v; want those submitted", got.Files, err)
		}
		r := testResult("a", job.StatusOK)
		r.Stdout = "zq7marker\n"
		if err := l.Finish(ctx, "a", c.Fence, r); err != nil {
			t.Fatal(err)
		}
		second := newLedger(t, rdb, Config{Keys: keys(t, keyLine("two", 2)+keyLine("one", 1))})
		if got, err := second.Result(ctx, "a"); err != nil || got.Stdout != r.Stdout {
			t.Errorf("got output %q, error %v; want it with the new keys", got.Stdout, err)
		}
		if got, err := second.Input(ctx, "stored-before"); err != nil || got.Files["main.py"] != old.Files["main.py"] {
			t.Errorf("got files %v, error %v; want what was stored before encryption", got.Files, err)
		}
		for name, get := range map[string]func() error{
			"input":  func() error { _, err := plain.Input(ctx, "a"); return err },
			"result": func() error { _, err := plain.Result(ctx, "a"); return err },
		} {
			if err := get(); !errors.Is(err, ErrNoKey) || errors.Is(err, ErrCorrupt) {
				t.Errorf("%s without a key: got error %v, want that the key is missing", name, err)
			}
		}
		for _, key := range []string{inputKey("a"), resultKey("a")} {
			text, err := rdb.Get(ctx, key).Bytes()
			if err != nil || !bytes.HasPrefix(text, []byte(sealMark+"\x03one")) {
				t.Errorf("%s: got %.20q, error %v; want it encrypted", key, text, err)
			}
		}
		// A result that is moved to another job is not its result.
		if err := rdb.Rename(ctx, resultKey("a"), resultKey("b")).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Result(ctx, "b"); !errors.Is(err, ErrCorrupt) {
			t.Errorf("got error %v for the result of another job, want corrupt", err)
		}
	})
}
