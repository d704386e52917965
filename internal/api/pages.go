package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for the style sheet
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/execra/tracefleet/internal/api/access"
	"github.com/execra/tracefleet/internal/api/monitor"
	"github.com/execra/tracefleet/internal/api/viewer"
	"github.com/execra/tracefleet/internal/job"
)

// maxFormBytes bounds the sign-in form.
const maxFormBytes = 4096

// htmlType is the media type of pages.
const htmlType = "text/html; charset=utf-8"

//go:embed style.css
var styleSheet string

// pagePolicy is for our own pages without scripts: one style sheet, known by its hash.
func pagePolicy() string {
	sum := sha256.Sum256([]byte(styleSheet))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

var loginPage = template.Must(template.New("login").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in · Tracefleet</title><style>{{.Style}}</style></head>
<body><main class="card"><h1>Tracefleet</h1>
{{if .Signed}}<p>Signed in as <b>{{.Signed}}</b> ({{.Role}}).</p><form method="post" action="/logout"><button>Sign out</button></form>
<p><a href="/">Trace a program</a> · <a href="/docs">API</a></p>
{{else}}<form method="post" action="/login"><input type="hidden" name="next" value="{{.Next}}">
<input type="text" name="username" value="token" autocomplete="username" hidden>
<label for="token">Token</label><input id="token" name="token" type="password" autocomplete="current-password" required autofocus maxlength="256">
{{with .Error}}<p role="alert" class="error">{{.}}</p>{{end}}
<button>Sign in</button></form><p class="hint">An operator makes tokens with <code>enqueuer token</code>.</p>{{end}}</main></body></html>
`))

type loginView struct {
	Style        template.CSS
	Next, Error  string
	Signed, Role string
}

// pages adds what is for people.
func (a *API) pages(r chi.Router) {
	r.Get("/login", a.showLogin)
	r.Post("/login", a.login)
	r.Post("/logout", a.logout)
	if a.cfg.Monitor != nil {
		r.HandleFunc(monitor.Path, a.monitoring)
		r.HandleFunc(monitor.Path+"/*", a.monitoring)
	}
	if a.cfg.Pages != nil {
		r.Get("/", a.viewer)
		r.Get("/traces/{id}", a.viewer)
		r.Get("/assets/*", a.assets)
	}
}

// page sends one of our own pages.
func (a *API) page(w http.ResponseWriter, r *http.Request, status int, html []byte) {
	w.Header().Set("Content-Security-Policy", pagePolicy())
	a.write(w, r, status, htmlType, html)
}

// enterPage tells who asks for a page. Who is not signed in is led to the form; ok is false then.
func (a *API) enterPage(w http.ResponseWriter, r *http.Request) (access.Identity, bool) {
	who, err := a.identify(r)
	switch {
	case err == nil:
		facts(r).identity = who
		return who, true
	case (errors.Is(err, access.ErrMissing) || errors.Is(err, access.ErrInvalid)) && r.Method == http.MethodGet:
		http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
	default:
		a.fail(w, r, err)
	}
	return who, false
}

// viewer serves the pages of the viewer. They hold no data: that comes from the API, under the same rights.
func (a *API) viewer(w http.ResponseWriter, r *http.Request) {
	facts(r).operation = "viewer"
	if id := r.PathValue("id"); id != "" && !job.ValidID(id) {
		a.fail(w, r, notFound("trace"))
		return
	}
	if _, ok := a.enterPage(w, r); !ok {
		return
	}
	w.Header().Set("Content-Security-Policy", viewer.Policy)
	a.cfg.Pages.ServeHTTP(w, r)
}

// assets serves the parts of the pages, which are the same for everybody.
func (a *API) assets(w http.ResponseWriter, r *http.Request) {
	facts(r).operation = "viewer"
	w.Header().Set("Content-Security-Policy", viewer.Policy)
	a.cfg.Pages.ServeHTTP(w, r)
}

// monitoring serves asynqmon: read-only, except for who may operate. It shows the jobs of all tenants.
func (a *API) monitoring(w http.ResponseWriter, r *http.Request) {
	facts(r).operation = "monitoring"
	who, ok := a.enterPage(w, r)
	if !ok {
		return
	}
	if !who.May(access.RoleRead) || !who.AllTenants {
		a.fail(w, r, problem(http.StatusForbidden, "forbidden", "Not allowed", "The queues show the jobs of all tenants: this needs a token that is not bound to one."))
		return
	}
	mayAct := who.May(access.RoleOperate)
	if !mayAct && r.Method != http.MethodGet && r.Method != http.MethodHead {
		a.fail(w, r, lacksRole(access.RoleOperate, who))
		return
	}
	// The session cookie is SameSite, and Identify has asked the browser; a request with a token comes from no browser's form.
	r.Body = http.MaxBytesReader(w, r.Body, maxRequeueBody)
	a.cfg.Monitor.Handler(mayAct).ServeHTTP(w, r)
}

func (a *API) showLogin(w http.ResponseWriter, r *http.Request) {
	facts(r).operation = "login"
	view := loginView{Next: localPath(r.URL.Query().Get("next"))}
	if who, err := a.cfg.Guard.Identify(r); err == nil {
		view.Signed, view.Role = who.Name, who.Role.String()
	}
	a.showForm(w, r, http.StatusOK, view)
}

func (a *API) showForm(w http.ResponseWriter, r *http.Request, status int, view loginView) {
	view.Style = template.CSS(styleSheet) //nolint:gosec // our own file
	var b bytes.Buffer
	if err := loginPage.Execute(&b, view); err != nil {
		a.fail(w, r, problem(http.StatusInternalServerError, "internal", "Internal error", "The page cannot be shown."))
		return
	}
	a.page(w, r, status, b.Bytes())
}

// login swaps a token for a session.
func (a *API) login(w http.ResponseWriter, r *http.Request) {
	facts(r).operation = "login"
	if a.cfg.Guard.Open() {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	if err := a.cfg.Guard.SameOrigin(r); err != nil {
		a.fail(w, r, err)
		return
	}
	body, release, err := a.readBody(w, r, maxFormBytes)
	defer release()
	if err != nil {
		a.fail(w, r, err)
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		form = url.Values{}
	}
	view := loginView{Next: localPath(form.Get("next"))}
	who, err := a.cfg.Guard.Token(strings.TrimSpace(form.Get("token")))
	if err != nil {
		if err := a.failed(r, err); !errors.Is(err, access.ErrInvalid) {
			a.fail(w, r, err)
			return
		}
		view.Error = "This token is not known here."
		a.showForm(w, r, http.StatusUnauthorized, view)
		return
	}
	cookie, err := a.cfg.Guard.SignIn(r.Context(), who, a.secure(r))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, view.Next, http.StatusSeeOther)
}

// logout ends the session.
func (a *API) logout(w http.ResponseWriter, r *http.Request) {
	facts(r).operation = "login"
	if err := a.cfg.Guard.SameOrigin(r); err != nil {
		a.fail(w, r, err)
		return
	}
	cookie, err := a.cfg.Guard.SignOut(r, a.secure(r))
	http.SetCookie(w, cookie)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func (a *API) secure(r *http.Request) bool { return a.cfg.Secure || r.TLS != nil }

// localPath keeps a redirect on this server: anything but a path here becomes the start page.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}

// remoteNetwork is where a request comes from: an address, or the network of one of IPv6, in which a client has as many as it likes.
func remoteNetwork(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}
