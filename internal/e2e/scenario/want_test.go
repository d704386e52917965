package scenario

import (
	"strings"
	"testing"
)

func TestParseWantRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ want, saying string }{
		"nothing":                        {``, "EOF"},
		"a list":                         {`[]`, "not a JSON object"},
		"two values":                     {`{"status":"ok"} {}`, "more after"},
		"no status":                      {`{"stdout":"x"}`, "no status"},
		"an unknown key":                 {`{"status":"ok","stdot":"x"}`, `unknown key "stdot"`},
		"a key twice":                    {`{"status":"ok","status":"x"}`, `"status" twice`},
		"an inner key twice":             {`{"status":"ok","lines":{"main.py":{"1":1,"1":2}}}`, `"1" twice`},
		"a status that is a number":      {`{"status":1}`, "status"},
		"an empty list of statuses":      {`{"status":[]}`, "no text"},
		"an empty text":                  {`{"status":"ok","stdout_contains":[""]}`, "no text"},
		"a hash in capitals":             {`{"status":"ok","stdout_sha256":"` + strings.Repeat("A", 64) + `"}`, "SHA-256"},
		"a short hash":                   {`{"status":"ok","stdout_sha256":"ab"}`, "SHA-256"},
		"a minimum that is a text":       {`{"status":"ok","stdout_bytes_min":"1"}`, "not a number"},
		"an unknown signal":              {`{"status":"ok","signal":"SIGNAL"}`, "no such signal"},
		"an unknown exception key":       {`{"status":"ok","exception":{"typ":"E"}}`, "typ"},
		"a cause that is a number":       {`{"status":"ok","exception":{"cause_type":1}}`, "a type is a name"},
		"a count that is a text":         {`{"status":"ok","calls":{"f":"1"}}`, "neither a number nor bounds"},
		"a count that is true":           {`{"status":"ok","total_calls":true}`, "neither a number nor bounds"},
		"bounds without bounds":          {`{"status":"ok","total_calls":{}}`, "without min and max"},
		"bounds with another key":        {`{"status":"ok","total_calls":{"least":1}}`, "least"},
		"a loop without iterations":      {`{"status":"ok","loops":[{"line":1}]}`, "line and iterations"},
		"a loop with another key":        {`{"status":"ok","loops":[{"line":1,"times":2}]}`, "times"},
		"an unknown usage":               {`{"status":"ok","usage":{"wall":1}}`, "wall"},
		"an unknown word of the tracer":  {`{"status":"ok","tracer":{"trust":"full"}}`, "trust"},
		"no pattern":                     {`{"status":"ok","trace_has":[]}`, "no pattern"},
		"a pattern with another key":     {`{"status":"ok","trace_has":[{"lines":1}]}`, "lines"},
		"a pattern with a list as value": {`{"status":"ok","trace_has":[{"value":[1]}]}`, "primitive"},
		"a value with another key":       {`{"status":"ok","trace_not":[{"vars":{"x":{"has":"1"}}}]}`, "has"},
		"a value containing nothing":     {`{"status":"ok","trace_not":[{"vars":{"x":{"contains":""}}}]}`, "no text"},
		"order without patterns":         {`{"status":"ok","trace_in_order":true}`, "without trace_has"},
		"order that is a text":           {`{"status":"ok","trace_in_order":"yes","trace_has":[{}]}`, "trace_in_order"},
		"text that may be anything":      {`{"status":"ok","valid_utf8":false}`, "only true"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseWant([]byte(c.want))
			if err == nil || !strings.Contains(err.Error(), c.saying) {
				t.Errorf("ParseWant(%s): got error %v, want one that says %q", c.want, err, c.saying)
			}
		})
	}
}

func FuzzParseWant(f *testing.F) {
	f.Add([]byte(`{"status":["ok"],"signal":9,"lines":{"main.py":{"1":{"min":1}}},"trace_has":[{"vars":{"x":null}}]}`))
	f.Add([]byte(`{"status":"ok","exception":{"type":"E","cause_type":null},"loops":[{"line":1,"iterations":2}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		want, err := ParseWant(data)
		if err != nil {
			return
		}
		// Whatever was understood can be compared with any result.
		want.Compare(nil, []byte(`{}`))
		want.Compare(nil, []byte(sample))
	})
}
