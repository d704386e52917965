package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// read returns every token with the places where it and the one before it ended, and what More told before it.
func read(t *testing.T, from tokens) (all []any) {
	t.Helper()
	for {
		more := from.More()
		token, err := from.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("after %d tokens: %v", len(all)/3, err)
		}
		all = append(all, more, token, from.InputOffset())
	}
}

// compare reads a valid document by both readers.
func compare(t *testing.T, data []byte) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if diff := cmp.Diff(read(t, anyTokens{dec}), read(t, &validTokens{data: data})); diff != "" {
		t.Errorf("tokens of %.200q (-json.Decoder +ours):\n%s", data, diff)
	}
}

func TestTokensOfValidDocuments(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]string{
		"string":        `"a"`,
		"empty string":  `""`,
		"number":        ` -1.5e+10 `,
		"literals":      `[true,false,null]`,
		"nothing in it": `[{},[],[[]],{"a":{}}]`,
		"white space":   " {\n\t\"a\" : [ 1 ,\r2 ] , \"b\":{ } } ",
		"escapes":       `{"\"\\\/\b\f\n\r\t":"\u00e9\ud83d\ude00\\","k":"\\\""}`,
		"half a pair":   `["\ud800","\udc00x"]`,
		"separators":    `{"a,b:c":"},]","[":"{"}`,
		"numbers":       `{"a":0,"b":-0,"c":1E5}`,
		"not ASCII":     `{"é":"日本"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, []byte(document))
		})
	}
}

func FuzzTokens(f *testing.F) {
	result, err := os.ReadFile("testdata/result.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(result)
	f.Add([]byte(`{"a":[1,-2.5e3,"\u00e9\\",true,false,null,{}],"b":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if json.Valid(data) && utf8.Valid(data) {
			compare(t, data)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	j := Job{ID: "a", Files: map[string]string{"main.py": "print(1)\n"}}.Normalize()
	doc, err := json.Marshal(j)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if _, err := DecodeBytes(doc, MaxLimits()); err != nil {
			b.Fatal(err)
		}
	}
}
