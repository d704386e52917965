package monitor

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestFormatPayload(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`{"v":1,"id":"a","tenant":"t","name":"n","bytes":5,"sha256":"s"}`: `"id":"a","tenant":"t","name":"n"`,
		`{"v":1,"id":"a","code":"print(secret)"}`:                         "bytes that are not a Tracefleet envelope",
		`print("secret")`: "15 bytes that are not a Tracefleet envelope",
		``:                "0 bytes",
		"\x00\xff":        "2 bytes",
		`{"v":1,"id":"a","name":"two\nlines\u202e<script>"}`:              `two\nlines`,
		`{"v":1,"id":"a","name":"` + strings.Repeat("n", 5000) + `"}`:     "bytes that are not",
		`{"v":1,"id":"a","name":"` + strings.Repeat(`\u2603`, 600) + `"}`: "☃",
	}
	for payload, want := range tests {
		got := FormatPayload([]byte(payload))
		if !strings.Contains(got, want) || len(got) > maxShownBytes || strings.Contains(got, "secret") || strings.ContainsAny(got, "\n\x00\u202e") {
			t.Errorf("%.60q: got %.120q", payload, got)
		}
	}
}

func TestFormatResult(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]string{
		"": "", `{"status":"ok","headline":"Finished normally","stdout":"secret"}`: `"headline":"Finished normally"`, "secret": "6 bytes that are not",
		`{"status":"ok","headline":"` + strings.Repeat("h", 9000) + `"}`: "…",
	} {
		got := FormatResult([]byte(result))
		if !strings.Contains(got, want) || len(got) > maxShownBytes || strings.Contains(got, "secret") {
			t.Errorf("%.60q: got %.120q", result, got)
		}
	}
}

func FuzzFormat(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":"a"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, got := range []string{FormatPayload(data), FormatResult(data)} {
			if len(got) > maxShownBytes || strings.ContainsAny(got, "\n\r\x00\x1b") {
				t.Errorf("got %q", got)
			}
		}
	})
}

func TestRowsAreBounded(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"": "", "page=2": "", "size=60&page=2": "60", "size=100": "100", "size=101": "100", "size=1000000000": "100", "size=-1": "100", "size=99999999999999999999": "100",
		"size=x": "100", "size=1&size=1000": "1", "size=": "100",
	} {
		r := httptest.NewRequest(http.MethodGet, Path+"/api/queues/q/pending_tasks?"+query, nil)
		if got := bounded(r).URL.Query().Get("size"); got != want {
			t.Errorf("%q: got size %q, want %q", query, got, want)
		}
		if r.URL.RawQuery != query {
			t.Errorf("%q: the caller's request was changed", query)
		}
	}
}
