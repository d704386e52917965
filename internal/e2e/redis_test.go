package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

// secret writes a password to a file of its own and returns both.
func secret(t *testing.T) (password, file string) {
	t.Helper()
	password, file = randomHex()+randomHex(), filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return password, file
}

// The users of deploy/redis can do all that the fleet does, and nothing else.
func TestRedisUsers(t *testing.T) {
	f := newFleet(t)
	passwords := map[string]string{}
	users := exec.Command(filepath.Join("..", "..", "deploy", "redis", "users.sh"))
	users.Env = environment()
	files := map[string]string{}
	for _, name := range []string{"worker", "enqueuer", "dashboard"} {
		passwords[name], files[name] = secret(t)
		users.Env = append(users.Env, strings.ToUpper(name)+"_PASSWORD_FILE="+files[name])
	}
	rules, err := users.Output()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	address := strings.TrimPrefix(strings.TrimSuffix(f.url, "/0"), "redis://")
	passwords["admin"] = randomHex()
	as := func(name string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: address, Username: name, Password: passwords[name], DisableIdentity: true, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	// Redis begins with a default user who may do everything.
	acl(ctx, t, f.rdb, []string{"admin", "on", ">" + passwords["admin"], "~*", "&*", "+@all"})
	admin := as("admin")
	f.rdb = admin
	for line := range strings.Lines(string(rules)) {
		acl(ctx, t, admin, strings.Fields(line)[1:])
		for name, password := range passwords {
			if strings.Contains(line, password) {
				t.Errorf("the rules have the password of %s", name)
			}
		}
	}
	passwords["default"] = passwords["dashboard"]

	// The fleet works, with each command as its own user.
	f.workerURL = "redis://worker@" + address + "/0"
	// What it stores is encrypted, besides.
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails, says crypto/rand
	keyFile := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keyFile, []byte("first "+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keyEnv := "TRACEFLEET_KEY_FILE=" + keyFile
	f.env = []string{"TRACEFLEET_REDIS_PASSWORD_FILE=" + files["worker"], keyEnv}
	w := f.start("w1", 2)
	f.url, f.env = "redis://enqueuer@"+address+"/0", []string{"TRACEFLEET_REDIS_PASSWORD_FILE=" + files["enqueuer"], keyEnv}
	wantOK(t, f.result(t, f.submit(t, program(t, "print('hello')\n", nil))), "hello\n")
	stopped := f.submit(t, program(t, "import time\ntime.sleep(600)\n", map[string]any{"limits": map[string]any{"wall_ms": 300_000}}))
	f.waitRunning(t, stopped)
	f.enqueuer(t, "", "cancel", stopped).done(t)
	if r := f.result(t, stopped); r.Status != job.StatusCanceled {
		t.Errorf("got status %s, want canceled", r.Status)
	}
	for _, key := range []string{":input", ":result"} {
		if text, err := admin.Get(ctx, "tf:{"+stopped+"}"+key).Result(); err != nil || !strings.HasPrefix(text, "TFE1\x05first") {
			t.Errorf("got %.20q, error %v as the %s in Redis, want it encrypted", text, err, key)
		}
	}
	for _, args := range [][]string{{"dlq", "list"}, {"doctor"}} {
		f.enqueuer(t, "", args...).done(t)
	}
	w.stop()
	log, err := admin.Do(ctx, "ACL", "LOG").Slice()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range log {
		if text := fmt.Sprint(entry); !strings.Contains(text, "username:default") { // Redis was asked whether it is up
			t.Errorf("Redis refused the fleet: %v", text)
		}
	}

	// A key of another program on the same Redis, and one of the fleet.
	if err := admin.MSet(ctx, "other:result", "private", "tf:{x}:result", "ours").Err(); err != nil {
		t.Fatal(err)
	}
	for name, commands := range refusals() {
		for _, command := range commands {
			args := make([]any, 0, 4)
			for _, word := range strings.Fields(command) {
				args = append(args, word)
			}
			if err := as(name).Do(ctx, args...).Err(); !refusal.MatchString(fmt.Sprint(err)) {
				t.Errorf("%s: %s: got error %v, want it refused", name, command, err)
			}
		}
	}
	if got, err := as("worker").Get(ctx, "tf:{x}:result").Result(); got != "ours" {
		t.Errorf("got %q, error %v; want the worker to read the fleet's keys", got, err)
	}
	if err := as("default").Info(ctx).Err(); err != nil {
		t.Errorf("the dashboard may not ask for INFO: %v", err)
	}

	stranger := redis.NewClient(&redis.Options{Addr: address, DisableIdentity: true, MaxRetries: -1})
	defer func() { _ = stranger.Close() }()
	if err := stranger.Ping(ctx).Err(); err == nil {
		t.Error("a client without a password was let in")
	}
	if strings.Contains(w.log.String(), passwords["worker"]) {
		t.Error("the worker's log has its password")
	}

}

// refusal is how Redis says no: to a user, to a script on its behalf, and to everybody.
var refusal = regexp.MustCompile(`NOPERM|no permissions|executing the script can't|command not allowed`)

// refusals are what each user must not do.
func refusals() map[string][]string {
	everybody := []string{
		"FLUSHALL", "FLUSHDB", "CONFIG GET requirepass", "CONFIG SET dir /tmp", "DEBUG SLEEP 0", "SHUTDOWN NOSAVE", "KEYS *", "RANDOMKEY",
		"ACL LIST", "ACL SETUSER worker on", "CLIENT LIST", "CLIENT KILL TYPE normal", "MONITOR", "REPLICAOF 127.0.0.1 1", "SAVE", "BGSAVE", "BGREWRITEAOF",
		"MODULE LIST", "SLOWLOG GET", "MIGRATE 127.0.0.1 1 tf:x 0 10", "RESTORE other:x 0 x", "DUMP tf:x", "SWAPDB 0 1", "FUNCTION LIST", "SCRIPT FLUSH",
		"LATENCY RESET", "GET other:result", "SET other:x 1", "DEL other:result", "PUBLISH other x", "RENAME tf:x other:x", "SORT tf:x", "OBJECT ENCODING tf:x",
		"EVAL return(redis.call('GET','other:result')) 0",
	}
	return map[string][]string{
		"worker": everybody, "enqueuer": append([]string{"SCAN 0"}, everybody...),
		"default": append([]string{"SCAN 0", "GET tf:{x}:result", "HGETALL tf:{x}", "DEL asynq:queues", "SADD asynq:queues x", "PUBLISH tf:cancel x", "HSET asynq:x a b",
			"EVAL return(redis.call('DEL','asynq:queues')) 0"}, everybody...),
	}
}

// acl applies the rules of one line of users.sh.
func acl(ctx context.Context, t *testing.T, admin redis.UniversalClient, words []string) {
	t.Helper()
	args := []any{"ACL", "SETUSER"}
	for _, word := range words {
		args = append(args, word)
	}
	if err := admin.Do(ctx, args...).Err(); err != nil {
		t.Fatalf("%s: %v", words[0], err)
	}
}

// TLS with a certificate authority of one's own, named by SSL_CERT_FILE; one that is not known is refused.
func TestRedisOverTLS(t *testing.T) {
	folder := t.TempDir()
	authority := certificates(t, folder)
	port := strconv.Itoa(redistest.FreePort(t))
	f := newFleetWith(t, redistest.Options{Args: []string{
		"--tls-port", port, "--tls-cert-file", filepath.Join(folder, "server.pem"), "--tls-key-file", filepath.Join(folder, "server.key"),
		"--tls-auth-clients", "no",
	}})
	f.url = "rediss://127.0.0.1:" + port + "/0"
	if got := f.enqueuer(t, "", "doctor"); got.code == 0 {
		t.Error("a certificate of an unknown authority was accepted")
	}
	f.env = []string{"SSL_CERT_FILE=" + authority}
	f.start("w1", 1)
	wantOK(t, f.result(t, f.submit(t, program(t, "print('over TLS')\n", nil))), "over TLS\n")
}

// certificates makes an authority and a server's certificate in folder, and returns the authority's file.
func certificates(t *testing.T, folder string) string {
	t.Helper()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	now := time.Now()
	authorityKey, serverKey := key(), key()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redis"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		t.Fatal(err)
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, serverKey.Public(), authorityKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		t.Fatal(err)
	}
	write("server.pem", "CERTIFICATE", serverDER)
	write("server.key", "PRIVATE KEY", keyDER)
	return write("authority.pem", "CERTIFICATE", der)
}
