package queue

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/redistest"
)

// startCluster starts a cluster of one node.
func startCluster(t *testing.T) redis.UniversalClient {
	t.Helper()
	server := redistest.StartCluster(t)
	rdb, err := OpenRedis(RedisOptions{URL: "redis+cluster://" + server.Addr() + "," + server.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestOpenRedisReadsURLs(t *testing.T) {
	t.Parallel()
	type facts struct {
		Addr, Network, Username, Password string
		DB                                int
		TLS                               bool
	}
	for name, tt := range map[string]struct {
		url  string
		want facts
	}{
		"plain":    {"redis://localhost", facts{Addr: "localhost:6379"}},
		"all":      {"redis://ann:s%40cret@10.0.0.1:7000/3", facts{Addr: "10.0.0.1:7000", Username: "ann", Password: "s@cret", DB: 3}},
		"tls":      {"rediss://:pw@redis.example:6380", facts{Addr: "redis.example:6380", Password: "pw", TLS: true}},
		"unix":     {"unix:///run/redis.sock?db=2", facts{Addr: "/run/redis.sock", Network: "unix", DB: 2}},
		"sentinel": {"redis+sentinel://ann:pw@s1:26379,s2:26379/4?master=main", facts{Addr: "FailoverClient", Username: "ann", Password: "pw", DB: 4}},
		"sentinel with tls": {
			"rediss+sentinel://s1:26379?master=main", facts{Addr: "FailoverClient", TLS: true},
		},
	} {
		rdb, err := OpenRedis(RedisOptions{URL: tt.url, PoolSize: 7})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o := rdb.(*redis.Client).Options()
		got := facts{o.Addr, o.Network, o.Username, o.Password, o.DB, o.TLSConfig != nil}
		if tt.want.Network == "" {
			tt.want.Network = "tcp"
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if o.PoolSize != 7 || !o.DisableIdentity {
			t.Errorf("%s: pool %d, identity disabled %v", name, o.PoolSize, o.DisableIdentity)
		}
		_ = rdb.Close()
	}
	rdb, err := OpenRedis(RedisOptions{URL: "rediss+cluster://ann:pw@h1:1,h2:2"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rdb.Close() }()
	o := rdb.(*redis.ClusterClient).Options()
	if diff := cmp.Diff([]string{"h1:1", "h2:2"}, o.Addrs); diff != "" || o.Username != "ann" || o.Password != "pw" || o.TLSConfig == nil {
		t.Errorf("cluster: %+v", o)
	}
}

func TestOpenRedisRefuses(t *testing.T) {
	t.Parallel()
	for _, u := range []string{
		"", "localhost:6379", "http://x", "redis://h/x", "redis://ann:topsecret@h:port", "redis+sentinel://h:1",
		"redis+sentinel://h:1/x?master=m", "redis+sentinel://h:1?master=m&pool=3", "redis+cluster://ann:topsecret@h:port,h:1",
		"redis+sentinel://ann:topsecret@h:port?master=m", "redis://ann:topsecret@h/%zz",
	} {
		_, err := OpenRedis(RedisOptions{URL: u})
		if err == nil {
			t.Errorf("%s: no error", u)
		} else if strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: the error tells the password: %v", u, err)
		}
	}
}

func TestUserAndSocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server := redistest.Start(t, redistest.Options{Args: []string{"--unixsocket", socket}})
	if err := server.Client().Do(t.Context(), "ACL", "SETUSER", "ann", "on", ">pw", "allcommands", "allkeys", "allchannels").Err(); err != nil {
		t.Fatal(err)
	}
	for _, u := range []string{"redis://ann:pw@" + server.Addr() + "/1", "unix://ann:pw@" + socket + "?db=1"} {
		rdb, err := OpenRedis(RedisOptions{URL: u})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rdb.Close() })
		if who, err := rdb.Do(t.Context(), "ACL", "WHOAMI").Text(); who != "ann" || err != nil {
			t.Errorf("%s: user %q, error %v", u, who, err)
		}
		other, err := clone(rdb)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = other.Close() })
		if who, err := other.Do(t.Context(), "ACL", "WHOAMI").Text(); who != "ann" || err != nil {
			t.Errorf("%s: the clone is user %q, error %v", u, who, err)
		}
	}
}

func TestHookIsInTheCloneOnly(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	other, err := clone(rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	slots := newSlots(1, func() int { return 0 }, NewMetrics(nil))
	other.AddHook(&hook{on: *allRemedies(), slots: slots, metrics: NewMetrics(nil)})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := other.Eval(canceled, "return 1", nil).Err(); err != nil {
		t.Errorf("a script of asynq's client stays canceled: %v", err)
	}
	if err := other.Get(canceled, "x").Err(); err == nil || err == redis.Nil {
		t.Error("a command that is no script was not canceled")
	}
	if err := rdb.Eval(canceled, "return 1", nil).Err(); err == nil {
		t.Error("a script of our own client was not canceled")
	}
}

func TestShownURLHasNoPassword(t *testing.T) {
	t.Parallel()
	const unread = "(an address that cannot be read)"
	for address, want := range map[string]string{
		"redis://127.0.0.1:6379/0":   "redis://127.0.0.1:6379/0",
		"redis://":                   "redis://",
		"redis:///3":                 "redis:///3",
		"redis://ann:s%40cret@h:1/3": "redis://ann:xxxxx@h:1/3",
		"redis://:secret@h":          "redis://:xxxxx@h",
		"rediss://h:1?dial_timeout=3s&password=secret":                 "rediss://h:1?dial_timeout=3s&password=xxxxx",
		"unix://ann:secret@/run/a,b.sock?db=2":                         "unix://ann:xxxxx@/run/a,b.sock?db=2",
		"redis+cluster://a:1,b:2":                                      "redis+cluster://a:1,b:2",
		"rediss+cluster://ann:secret@a:1,b:2,c:3":                      "rediss+cluster://ann:xxxxx@a:1,b:2,c:3",
		"redis+cluster://ann:se,cret@a:1,b:2":                          "redis+cluster://ann:xxxxx@a:1,b:2",
		"redis+sentinel://:secret@s1:1,s2:2/4?master=m":                "redis+sentinel://:xxxxx@s1:1,s2:2/4?master=m",
		"redis+sentinel://s1:1,s2:2?master=m&sentinel_password=secret": "redis+sentinel://s1:1,s2:2?master=m&sentinel_password=xxxxx",
		"redis://:sec/ret@h":                                           unread,
		"redis://:secret@h:port":                                       unread,
		"secret":                                                       unread,
		"":                                                             unread,
	} {
		got := ShownURL(address)
		if got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
		if strings.Contains(got, "cret") {
			t.Errorf("%s: got %s, which tells the password", address, got)
		}
	}
}
