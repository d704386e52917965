package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// FuzzHeaders feeds what clients write into headers and parameters to what reads it.
func FuzzHeaders(f *testing.F) {
	f.Add("25s", "wait=25", "gzip;q=0.5, zstd", "/traces/x?y#z")
	f.Add("NaN", "WAIT = \"3\" , x", "*;q=0,,;", "//evil")
	f.Fuzz(func(t *testing.T, wait, prefer, accept, next string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.RawQuery = url.Values{"wait": {wait}}.Encode()
		r.Header["Prefer"] = []string{prefer}
		if d, _, err := parseWait(r); err == nil && (d < 0 || d > MaxWait) {
			t.Errorf("wait %q, prefer %q: %s", wait, prefer, d)
		}
		r.URL.RawQuery = ""
		if d, _, err := parseWait(r); err != nil || d < 0 || d > MaxWait {
			t.Errorf("prefer %q: %s, %v", prefer, d, err)
		}
		if got := negotiate(accept); got != "" && got != "gzip" && got != "zstd" {
			t.Errorf("accept %q: %q", accept, got)
		}
		path := localPath(next)
		if u, err := url.Parse(path); err != nil || u.Host != "" || u.Scheme != "" || path[0] != '/' {
			t.Errorf("next %q: %q", next, path)
		}
	})
}
