package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"github.com/execra/tracefleet/internal/api"
	"github.com/execra/tracefleet/internal/api/access"
	"github.com/execra/tracefleet/internal/api/monitor"
	"github.com/execra/tracefleet/internal/api/viewer"
	"github.com/execra/tracefleet/internal/buildinfo"
	"github.com/execra/tracefleet/internal/cli"
	"github.com/execra/tracefleet/internal/deadletter"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/ops"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/roster"
	sessions "github.com/execra/tracefleet/internal/session"
	"github.com/execra/tracefleet/internal/webhook"
)

// openNotice is shown when anybody on this machine may do everything.
const openNotice = `WARNING: no tokens are in use. Everybody who can connect to %s on this machine may
run programs in the fleet, read all results and work on its queues. Make a token with
  enqueuer token --name me --role operate --file tokens
and serve with --tokens tokens.
`

// serveCmd serves the fleet over HTTP.
type serveCmd struct {
	Addr    string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where to listen (${default})."`
	Tokens  string `placeholder:"FILE" help:"Tokens that are let in, as made by enqueuer token; read again when it changes. Without it only loopback addresses are listened on."`
	TLSCert string `name:"tls-cert" placeholder:"FILE" help:"Certificate chain; connections are encrypted then."`
	TLSKey  string `name:"tls-key" placeholder:"FILE" help:"Its key."`

	PublicURL string `placeholder:"URL" help:"Where clients reach the server, such as https://traces.example.com: what links in webhooks begin with. With https, as behind a proxy that ends TLS, session cookies are for TLS only."`

	Rate           float64 `default:"100" placeholder:"N" help:"Requests a second of one token (${default})."`
	Burst          int     `default:"200" placeholder:"N" help:"Requests of one token at once (${default})."`
	MaxWaiters     int     `default:"2000" placeholder:"N" help:"Requests that wait for results at one time, at most half of them of one token (${default})."`
	MaxConnections int     `default:"4096" placeholder:"N" help:"Connections at one time (${default})."`
	Check          bool    `help:"Only ask the server that listens at --addr whether it is ready; for health checks."`
	Metrics        string  `placeholder:"HOST:PORT" help:"Serve /metrics, /healthz and /readyz for operators here."`
	LogFormat      string  `enum:"json,console" default:"console" placeholder:"FORM" help:"json or console (${default})."`
	LogLevel       string  `enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL" help:"debug logs every request (${default})."`

	WebhookHost        []string `group:"webhooks" placeholder:"HOST" help:"A host that callback_url may name: a name, *.name, or * for any public one. May be given again."`
	WebhookPrivateHost []string `group:"webhooks" placeholder:"HOST" help:"The same for a host with private addresses or without TLS."`
	WebhookSecrets     string   `group:"webhooks" placeholder:"FILE" help:"Secrets that sign webhooks, one whsec_… a line; the first ones may be new, the others old."`

	admissionFlags
}

// Help explains the command in its --help.
func (*serveCmd) Help() string {
	return `Serves the API under /api/v1 (described at /docs), the trace viewer at /, and asynqmon at /monitoring. Any number may run over one Redis, behind any load balancer; no state is theirs alone.

Put TLS in front of it, or give --tls-cert, wherever the address is not loopback: tokens travel with each request.

Examples:

    enqueuer serve
    enqueuer serve --addr 0.0.0.0:8080 --tokens /etc/tracefleet/tokens --metrics 127.0.0.1:9466`
}

// Run carries the command out.
func (c *serveCmd) Run(s *session) error {
	if c.Check {
		return c.check(s.ctx)
	}
	tokens, err := c.tokens()
	if err != nil {
		return err
	}
	if err := c.checkPublicURL(); err != nil {
		return err
	}
	secure, err := c.tls()
	if err != nil {
		return err
	}
	log, err := ops.NewLogger(ops.LogConfig{Format: c.LogFormat, Level: c.LogLevel, Output: zapcore.AddSync(s.err)})
	if err != nil {
		return cli.Usagef("%w", err)
	}
	metrics := ops.NewRegistry()
	fleet, err := s.connect(wiring{admission: c.admission(), metrics: metrics, log: log})
	if err != nil {
		return err
	}
	defer fleet.close()
	// asynqmon keeps its own connections: what it asks for can be slow, and must not hold up the API.
	watched, err := queue.OpenRedis(queue.RedisOptions{URL: s.Redis, PasswordFile: s.RedisPasswordFile, PoolSize: monitorPool})
	if err != nil {
		return cli.Usagef("--redis: %w", err)
	}
	defer func() { _ = watched.Close() }() // it was only asked
	p, err := c.parts(s, fleet, watched, tokens, metrics, log)
	if err != nil {
		return err
	}
	server, err := p.api.Listen(s.ctx, c.Addr, c.MaxConnections, secure)
	if err != nil {
		return cli.Failf(cli.CodeFailed, "--addr: %w; name a free address", err)
	}
	parts := append(p.beside, server.Run)
	if c.Metrics != "" {
		operators, err := ops.Listen(s.ctx, c.Metrics, metrics, p.checks, log)
		if err != nil {
			return errors.Join(cli.Failf(cli.CodeFailed, "--metrics: %w; name a free address", err), server.Close())
		}
		parts = append(parts, operators.Run)
	}
	c.greet(s, tokens, secure, server.Addr())
	return runParts(s.ctx, parts)
}

// monitorPool is enough for the few people who look at asynqmon at one time.
const monitorPool = 5

// serveParts are what a server is made of.
type serveParts struct {
	api    *api.API
	beside []func(context.Context) error
	checks *ops.Checks
}

func (c *serveCmd) parts(s *session, f *fleet, watched redis.UniversalClient, tokens *access.Tokens, metrics prometheus.Registerer, log *zap.Logger) (serveParts, error) {
	p := serveParts{checks: &ops.Checks{}}
	if err := p.checks.Add("redis", reachTimeout, func(ctx context.Context) error { return f.redis.Ping(ctx).Err() }); err != nil {
		return p, err
	}
	asynqmon, err := monitor.New(watched)
	if err != nil {
		return p, err
	}
	pages, err := viewer.Handler()
	if err != nil {
		return p, err
	}
	workers := roster.NewFollower(roster.NewBoard(f.redis), log)
	p.beside = append(p.beside, workers.Run)
	guard := access.NewGuard(tokens, sessions.New(f.redis))
	if tokens != nil {
		p.beside = append(p.beside, func(ctx context.Context) error { return guard.Follow(ctx, c.Tokens, log) })
	}
	cfg := api.Config{
		Guard: guard, Desk: f.desk, Book: f.ledger, Dead: f.ledger, Office: deadletter.New(f.ledger, f.producer), Batches: f.ledger, Maxima: workers.Maxima,
		Monitor: asynqmon, Pages: pages, Checks: p.checks,
		MaxWaiters: c.MaxWaiters, RatePerSecond: c.Rate, Burst: c.Burst, Secure: c.TLSCert != "" || strings.HasPrefix(c.PublicURL, "https://"),
		Version: buildinfo.Get().Version, Registerer: metrics, Log: log,
	}
	sender, err := c.hooks(f, &cfg, log)
	if err != nil {
		return p, err
	}
	if sender != nil {
		p.beside = append(p.beside, sender.Run)
	}
	p.api, err = api.New(s.ctx, cfg)
	if err != nil {
		return p, cli.Usagef("%w", err)
	}
	return p, nil
}

// hooks adds webhooks to the configuration, if they are asked for.
func (c *serveCmd) hooks(f *fleet, cfg *api.Config, log *zap.Logger) (*webhook.Sender, error) {
	targets := webhook.Targets{Hosts: c.WebhookHost, Private: c.WebhookPrivateHost}
	if !targets.Enabled() {
		return nil, nil
	}
	if c.WebhookSecrets == "" {
		return nil, cli.Usagef("--webhook-secrets is needed to sign webhooks")
	}
	secrets, err := webhook.LoadSecrets(c.WebhookSecrets)
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	store := webhook.NewStore(f.redis)
	sender, err := webhook.NewSender(store, f.ledger, webhook.Config{
		Targets: targets, Secrets: secrets, BaseURL: c.PublicURL, UserAgent: "tracefleet/" + buildinfo.Get().Version, Log: log,
	})
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	cfg.Hooks, cfg.Targets, cfg.Poke = store, targets, sender.Poke
	return sender, nil
}

// tokens reads the file of tokens. Without one the address must be loopback.
func (c *serveCmd) tokens() (*access.Tokens, error) {
	if c.Tokens == "" {
		if !access.Loopback(c.Addr) {
			return nil, cli.Usagef("--addr %s is reached from other machines: give --tokens FILE (see enqueuer token --help), or listen on 127.0.0.1", c.Addr)
		}
		return nil, nil
	}
	tokens, err := access.LoadTokens(c.Tokens)
	if err != nil {
		return nil, cli.Usagef("--%w", err) // it begins with: tokens
	}
	return tokens, nil
}

// checkPublicURL refuses what paths cannot be put behind.
func (c *serveCmd) checkPublicURL() error {
	if c.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return cli.Usagef("--public-url: must be https:// or http:// and a host, such as https://traces.example.com")
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	return nil
}

func (c *serveCmd) tls() (*tls.Config, error) {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return nil, cli.Usagef("--tls-cert and --tls-key go together")
	}
	if c.TLSCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, cli.Usagef("--tls-cert: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// greet says where the server is, and warns of what is open.
func (c *serveCmd) greet(s *session, tokens *access.Tokens, secure *tls.Config, addr string) {
	scheme := "http"
	if secure != nil {
		scheme = "https"
	}
	if tokens == nil {
		s.notice(openNotice, addr)
	} else if secure == nil && !access.Loopback(c.Addr) {
		s.notice("WARNING: tokens travel unencrypted to %s. Put TLS in front of it, or give --tls-cert and --tls-key.\n", addr)
	}
	if !s.Quiet {
		s.notice("serving %s://%s/ (API: /docs, queues: %s)\n", scheme, addr, monitor.Path)
	}
}

// runParts runs everything until ctx ends or one fails, and returns when nothing runs any more.
func runParts(ctx context.Context, parts []func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range parts {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}

var (
	_ api.DeadLetters = (*ledger.Ledger)(nil)
	_ api.Office      = (*deadletter.Office)(nil)
	_ access.Sessions = (*sessions.Store)(nil)
)
