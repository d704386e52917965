package queue

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisOptions says how to reach Redis.
type RedisOptions struct {
	// URL is one of
	//
	//	redis://[user:password@]host[:6379][/db]            rediss:// for TLS
	//	unix://[user:password@]/path/to/socket[?db=n]
	//	redis+cluster://[user:password@]host:port,host:port,…                rediss+cluster:// for TLS
	//	redis+sentinel://[user:password@]host:port,…/[db]?master=name        rediss+sentinel:// for TLS
	//
	// The parameters of the URL that go-redis knows may follow a ?; sentinels take sentinel_username and sentinel_password.
	URL string
	// PasswordFile names a file whose first line is the password, in place of one in the URL: a file is in no process
	// list and no environment. Empty means none.
	PasswordFile string
	// PoolSize is the number of connections to each node; 0 is ten for each processor.
	PoolSize int
}

const (
	dialTimeout = 5 * time.Second
	ioTimeout   = 3 * time.Second
)

// OpenRedis makes a client. It does not connect yet.
func OpenRedis(o RedisOptions) (redis.UniversalClient, error) {
	if o.PasswordFile != "" {
		var err error
		if o.URL, err = withPassword(o.URL, o.PasswordFile); err != nil {
			return nil, err
		}
	}
	scheme, rest, ok := strings.Cut(o.URL, "://")
	if !ok {
		return nil, errors.New("redis URL: must start with redis://, rediss:// or unix://")
	}
	switch scheme {
	case "redis+cluster", "rediss+cluster":
		return openCluster(o, strings.TrimSuffix(scheme, "+cluster"), rest)
	case "redis+sentinel", "rediss+sentinel":
		return openSentinel(o, strings.TrimSuffix(scheme, "+sentinel"), rest)
	}
	opts, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", hideURL(err))
	}
	opts.PoolSize = cmp.Or(opts.PoolSize, o.PoolSize)
	opts.DialTimeout = cmp.Or(opts.DialTimeout, dialTimeout)
	opts.ReadTimeout = cmp.Or(opts.ReadTimeout, ioTimeout)
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, ioTimeout)
	opts.DisableIdentity = true // Redis before 7.2 answers it with errors.
	return redis.NewClient(opts), nil
}

// withPassword puts the password of a file into a URL, which may be one of several hosts.
func withPassword(address, file string) (string, error) {
	const most = 4 << 10 // far more than any password
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("redis password file: %w", err)
	}
	defer func() { _ = f.Close() }() // opened to read
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return "", fmt.Errorf("redis password file: %w", err)
	}
	password, _, _ := strings.Cut(string(text), "\n")
	if password = strings.TrimSuffix(password, "\r"); password == "" {
		return "", fmt.Errorf("redis password file %s: its first line is empty", file)
	}
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return "", errors.New("redis URL: must start with redis://, rediss:// or unix://")
	}
	user := ""
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
		var given string
		user, given, _ = strings.Cut(rest[:at], ":")
		if given != "" {
			return "", errors.New("redis URL: it has a password, and there is a password file as well; give one of them")
		}
		rest = rest[at+1:]
	}
	return scheme + "://" + user + ":" + strings.TrimPrefix(url.UserPassword("", password).String(), ":") + "@" + rest, nil
}

func openCluster(o RedisOptions, scheme, rest string) (redis.UniversalClient, error) {
	hosts, single := splitHosts(rest)
	opts, err := redis.ParseClusterURL(scheme + "://" + single)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", hideURL(err))
	}
	opts.Addrs = hosts
	opts.PoolSize = cmp.Or(opts.PoolSize, o.PoolSize)
	opts.DialTimeout = cmp.Or(opts.DialTimeout, dialTimeout)
	opts.ReadTimeout = cmp.Or(opts.ReadTimeout, ioTimeout)
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, ioTimeout)
	opts.DisableIdentity = true
	return redis.NewClusterClient(opts), nil
}

func openSentinel(o RedisOptions, scheme, rest string) (redis.UniversalClient, error) {
	hosts, single := splitHosts(rest)
	u, err := url.Parse(scheme + "://" + single)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", hideURL(err))
	}
	q := u.Query()
	opts := &redis.FailoverOptions{
		MasterName: q.Get("master"), SentinelAddrs: hosts,
		SentinelUsername: q.Get("sentinel_username"), SentinelPassword: q.Get("sentinel_password"),
		PoolSize: o.PoolSize, DialTimeout: dialTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout, DisableIdentity: true,
	}
	if opts.MasterName == "" {
		return nil, errors.New("redis URL: a sentinel URL needs ?master=name")
	}
	for name := range q {
		if name != "master" && name != "sentinel_username" && name != "sentinel_password" {
			return nil, fmt.Errorf("redis URL: unknown parameter %.40q", name)
		}
	}
	opts.Username = u.User.Username()
	opts.Password, _ = u.User.Password()
	if db := strings.Trim(u.Path, "/"); db != "" {
		if opts.DB, err = strconv.Atoi(db); err != nil || opts.DB < 0 {
			return nil, fmt.Errorf("redis URL: database %.40q is not a number", db)
		}
	}
	if scheme == "rediss" {
		// go-redis sets the server name of each connection.
		single, err := redis.ParseURL("rediss://" + u.Host)
		if err != nil {
			return nil, fmt.Errorf("redis URL: %w", hideURL(err))
		}
		opts.TLSConfig = single.TLSConfig
	}
	return redis.NewFailoverClient(opts), nil
}

// splitHosts takes the list of hosts out of a URL without its scheme, and returns the URL with the first host
// alone, which net/url can parse.
func splitHosts(rest string) (hosts []string, single string) {
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	user := ""
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, authority = authority[:at+1], authority[at+1:]
	}
	hosts = strings.Split(authority, ",")
	return hosts, user + hosts[0] + tail
}

// ShownURL is a URL that OpenRedis takes, of any form, without its passwords. What cannot be read is not shown at all.
func ShownURL(address string) string {
	const unread = "(an address that cannot be read)"
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return unread
	}
	hosts, single := splitHosts(rest)
	if scheme == "unix" {
		hosts, single = nil, rest // a comma there belongs to a path
	}
	u, err := url.Parse(scheme + "://" + single)
	if err != nil {
		return unread
	}
	if q := u.Query(); q.Has("password") || q.Has("sentinel_password") {
		for name := range q {
			if strings.HasSuffix(name, "password") {
				q.Set(name, "xxxxx")
			}
		}
		u.RawQuery = q.Encode()
	}
	if len(hosts) > 1 {
		u.Host = strings.Join(hosts, ",")
	}
	shown := u.Redacted()
	if path, bare := strings.CutPrefix(shown, u.Scheme+":"); bare && !strings.HasPrefix(path, "//") {
		shown = u.Scheme + "://" + path // package url leaves the slashes out before no host
	}
	return shown
}

// hideURL keeps the URL, and with it a password, out of messages.
func hideURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return errors.New("it cannot be parsed")
	}
	return err
}

// clone makes a second client with the options of rdb, so that a hook in it is
// seen by its user only.
func clone(rdb redis.UniversalClient) (redis.UniversalClient, error) {
	switch c := rdb.(type) {
	case *redis.Client:
		opts := *c.Options()
		return redis.NewClient(&opts), nil
	case *redis.ClusterClient:
		opts := *c.Options()
		return redis.NewClusterClient(&opts), nil
	default:
		return nil, fmt.Errorf("cannot clone a Redis client of type %T", rdb)
	}
}
