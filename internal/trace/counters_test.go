package trace

import "testing"

func TestHeaderLine(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		source     []string
		line, want int
	}{
		"keyword on the line":     {[]string{"while x:", "    y"}, 1, 1},
		"bracket on its own line": {[]string{"z = 1", "while (", "    x > 0", "):"}, 3, 2},
		"asynchronous":            {[]string{"async for x \\", "    in y:"}, 2, 1},
		"a name that begins so":   {[]string{"while_it_lasts = (", "    x"}, 2, 2},
		"another statement":       {[]string{"while x:", "    if y:", "        z"}, 3, 3},
		"no such line":            {[]string{"x"}, 7, 7},
		"no source":               {nil, 1, 1},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := headerLine(tt.source, tt.line); got != tt.want {
				t.Errorf("got line %d, want %d", got, tt.want)
			}
		})
	}
}
