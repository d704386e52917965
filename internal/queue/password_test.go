package queue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestPasswordFile(t *testing.T) {
	t.Parallel()
	const password = "p@ss:w/o?rd #%"
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write(password + "\nmore\n")
	for address, user := range map[string]string{
		"redis://127.0.0.1:6379/2":          "",
		"redis://worker@127.0.0.1:6379/2":   "worker",
		"rediss://worker:@127.0.0.1:6379":   "worker",
		"unix://worker@/run/redis.sock":     "worker",
		"redis+cluster://worker@h:1,h:2":    "worker",
		"redis+sentinel://h:1,h:2?master=m": "",
	} {
		client, err := OpenRedis(RedisOptions{URL: address, PasswordFile: good})
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		gotUser, gotPassword := "", ""
		switch c := client.(type) {
		case *redis.Client:
			gotUser, gotPassword = c.Options().Username, c.Options().Password
		case *redis.ClusterClient:
			gotUser, gotPassword = c.Options().Username, c.Options().Password
		}
		if gotUser != user || gotPassword != password {
			t.Errorf("%s: got user %q and password %q, want %q and that of the file", address, gotUser, gotPassword, user)
		}
		_ = client.Close()
	}
	for name, o := range map[string]RedisOptions{
		"no file":       {URL: "redis://h", PasswordFile: filepath.Join(t.TempDir(), "none")},
		"an empty line": {URL: "redis://h", PasswordFile: write("\n" + password)},
		"two passwords": {URL: "redis://:other@h", PasswordFile: good},
		"no URL":        {URL: "h", PasswordFile: good},
	} {
		if _, err := OpenRedis(o); err == nil || strings.Contains(err.Error(), "p@ss") || strings.Contains(err.Error(), "other") {
			t.Errorf("%s: got error %v, want one without a password", name, err)
		}
	}
}
