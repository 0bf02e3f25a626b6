/* FastCGI: the only place that knows libfcgi.
 *
 * What libfcgi does, tried against 2.4.2 (tests/flow/test_prefork.py keeps
 * trying it): FCGX_Accept_r() answers -EAGAIN when another worker took the
 * connection; it closes a connection that breaks the protocol or goes away
 * before the parameters are whole, and tries the next one; accepted sockets
 * are blocking though the listening one is not. FCGX_Finish_r() shuts down the
 * sending side and waits for the peer to close, 2 seconds at most. Lengths
 * are int.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/fcgi.h"

#include <errno.h>
#include <fcgiapp.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"

enum { LISTEN_FD = 0, BACKLOG = 1024, PIECE_MAX = 1 << 20 };

struct fcgi {
	FCGX_Request request;
	bool open; /* a request is accepted and not finished */
};

/* Parameters that may come once. */
enum param {
	PARAM_ROLE,
	PARAM_METHOD,
	PARAM_URI,
	PARAM_LENGTH,
	PARAM_TYPE,
	PARAM_ADDR,
	PARAM_ID,
	PARAM_LISTENER,
	PARAM_CERT,
	PARAM_COUNT
};

static const struct param_row {
	const char *name;
	enum fail_code doubled;
} PARAMS[PARAM_COUNT] = {
	[PARAM_ROLE] = {"FCGI_ROLE", FAIL_BAD_REQUEST},
	[PARAM_METHOD] = {"REQUEST_METHOD", FAIL_BAD_REQUEST},
	[PARAM_URI] = {"REQUEST_URI", FAIL_BAD_REQUEST},
	[PARAM_LENGTH] = {"CONTENT_LENGTH", FAIL_BAD_HEADER},
	[PARAM_TYPE] = {"CONTENT_TYPE", FAIL_BAD_HEADER},
	[PARAM_ADDR] = {"REMOTE_ADDR", FAIL_BAD_REQUEST},
	[PARAM_ID] = {"WAYBILL_REQUEST_ID", FAIL_BAD_REQUEST},
	[PARAM_LISTENER] = {"WAYBILL_LISTENER", FAIL_BAD_REQUEST},
	[PARAM_CERT] = {"WAYBILL_CLIENT_CERT", FAIL_BAD_REQUEST},
};

/* A request being read. The first thing wrong with it is kept; reading goes
 * on, so that the refusal can be logged with what else there is. */
struct reading {
	struct arena *a;
	struct http_request *r;
	struct fail *f;
	struct sv params[PARAM_COUNT];
	size_t header_bytes;
	bool own_type; /* HTTP_CONTENT_TYPE was among the headers */
	bool bad;
};

static void refuse(struct reading *g, enum fail_code code, const char *what,
		   struct sv name)
{
	if (g->bad)
		return;
	g->bad = true;
	if (name.n > 64)
		name.n = 64;
	fail_set(g->f, code, "%.*s%s", SV_ARG(name), what);
}

/* A header's name is the sender's: an odd one may be anything, a key too. */
static void refuse_header(struct reading *g, enum fail_code code,
			  const char *what, struct sv name)
{
	if (g->bad)
		return;
	refuse(g, code, what, name);
	g->f->quotes = true;
}

/* "X_CORRELATION_ID" -> "x-correlation-id"; SV_NONE if it is no header name. */
static struct sv header_name(struct arena *a, struct sv param)
{
	char *p = arena_dup(a, param);

	for (size_t i = 0; i < param.n; i++) {
		if (p[i] == '_')
			p[i] = '-';
		else if (p[i] >= 'A' && p[i] <= 'Z')
			p[i] = (char)(p[i] + ('a' - 'A'));
		else if (!(p[i] >= 'a' && p[i] <= 'z') &&
			 !(p[i] >= '0' && p[i] <= '9') && p[i] != '-')
			return SV_NONE;
	}
	return sv_from(p, param.n);
}

static bool has_control(struct sv s)
{
	for (size_t i = 0; i < s.n; i++)
		if (((unsigned char)s.p[i] < 0x20 && s.p[i] != '\t') ||
		    s.p[i] == 0x7f)
			return true;
	return false;
}

static void add_header(struct reading *g, struct sv name, struct sv value)
{
	struct http_request *r = g->r;

	if (name.n > HTTP_HEADER_BYTES_MAX ||
	    value.n > HTTP_HEADER_BYTES_MAX - name.n) {
		refuse_header(g, FAIL_HEADERS_TOO_LARGE, " is over 8 KiB",
			      name);
		return;
	}
	if (name.n + value.n > HTTP_HEADERS_BYTES_MAX - g->header_bytes) {
		refuse(g, FAIL_HEADERS_TOO_LARGE,
		       "the headers together are over 32 KiB", SV(""));
		return;
	}
	if (r->header_count == HTTP_HEADERS_MAX) {
		refuse(g, FAIL_HEADERS_TOO_LARGE, "more than 128 headers",
		       SV(""));
		return;
	}
	if (has_control(value)) {
		refuse_header(g, FAIL_BAD_HEADER, " holds a control character",
			      name);
		return;
	}
	g->header_bytes += name.n + value.n;
	r->headers[r->header_count++] =
		(struct http_header){name, arena_sv(g->a, sv_trim(value))};
}

static void read_header(struct reading *g, struct sv param, struct sv value)
{
	struct sv name = header_name(g->a, param);

	if (!name.n) {
		refuse(g, FAIL_BAD_HEADER, "a header's name is malformed",
		       SV(""));
		return;
	}
	if (sv_eq(name, SV("content-type")))
		g->own_type = true;
	add_header(g, name, value);
}

static void read_known(struct reading *g, struct sv name, struct sv value)
{
	for (size_t i = 0; i < PARAM_COUNT; i++) {
		if (!sv_eq(name, sv_of(PARAMS[i].name)))
			continue;
		if (g->params[i].p)
			refuse(g, PARAMS[i].doubled, " came twice", name);
		else
			g->params[i] = sv_of(arena_dup(g->a, value));
		return;
	}
}

/* FCGX_GetParam() sees only one of several with the same name. */
static void read_params(struct reading *g, char **params)
{
	for (; *params; params++) {
		struct sv value = sv_of(*params), name = sv_cut(&value, '=');

		if (sv_starts(name, SV("HTTP_")))
			read_header(g, sv_tail(name, 5), value);
		else
			read_known(g, name, value);
	}
}

static void take_uri(struct reading *g)
{
	struct sv uri = g->params[PARAM_URI];

	if (uri.n > HTTP_URI_BYTES_MAX) {
		refuse(g, FAIL_URI_TOO_LONG,
		       "path and query together are over 8 KiB", SV(""));
		uri.n = HTTP_URI_BYTES_MAX;
	}
	if (!uri.n)
		refuse(g, FAIL_BAD_REQUEST, " is missing", SV("REQUEST_URI"));
	g->r->path = sv_cut(&uri, '?');
	g->r->query = uri;
}

/* nginx sends an empty CONTENT_LENGTH where the client sent none. */
static void take_length(struct reading *g)
{
	struct sv text = g->params[PARAM_LENGTH];

	if (!text.n)
		return;
	if (text_u64(text, 0, INT64_MAX, &g->r->content_length))
		g->r->has_length = true;
	else
		refuse(g, FAIL_BAD_HEADER, " is not a number of bytes",
		       SV("content-length"));
}

static void take_type(struct reading *g)
{
	struct sv type = g->params[PARAM_TYPE];

	if (type.n && !g->own_type)
		add_header(g, SV("content-type"), type);
}

static void take_request_id(struct reading *g)
{
	uint8_t bytes[16];

	if (text_hex_decode(g->params[PARAM_ID], bytes, sizeof(bytes)))
		g->r->request_id = g->params[PARAM_ID];
}

static void take_params(struct reading *g)
{
	struct http_request *r = g->r;

	if (!sv_eq(g->params[PARAM_ROLE], SV("RESPONDER")))
		refuse(g, FAIL_BAD_REQUEST, " is not RESPONDER",
		       SV("FCGI_ROLE"));
	if (!g->params[PARAM_METHOD].n)
		refuse(g, FAIL_BAD_REQUEST, " is missing",
		       SV("REQUEST_METHOD"));
	r->method_text = g->params[PARAM_METHOD];
	r->method = http_method_of(r->method_text);
	r->admin = sv_eq(g->params[PARAM_LISTENER], SV("admin"));
	r->internal = sv_eq(g->params[PARAM_LISTENER], SV("internal"));
	r->remote_addr = g->params[PARAM_ADDR];
	r->client_cert = g->params[PARAM_CERT];
	take_uri(g);
	take_length(g);
	take_type(g);
	take_request_id(g);
}

bool fcgi_check(struct fail *f)
{
	int listening = 0;
	socklen_t n = sizeof(listening);

	if (getsockopt(LISTEN_FD, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) ==
		    0 &&
	    listening)
		return true;
	return fail_set(f, FAIL_SYSTEM,
			"descriptor 0 is not a listening socket: run this "
			"program as an [fcgi-program] of supervisord, or with "
			"--listen PATH");
}

/* Something at `path` that nobody listens to any more goes; what is in use,
 * or is no socket, stays, and bind() will say so. */
static void remove_stale(int fd, const struct sockaddr_un *at)
{
	struct stat st;

	if (lstat(at->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	    connect(fd, (const struct sockaddr *)at, sizeof(*at)) != 0 &&
	    errno == ECONNREFUSED)
		unlink(at->sun_path);
}

static bool bind_at(int fd, const struct sockaddr_un *at)
{
	mode_t old = umask(0117);
	bool ok = bind(fd, (const struct sockaddr *)at, sizeof(*at)) == 0;

	umask(old);
	return ok;
}

bool fcgi_listen(const char *path, struct fail *f)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int probe, fd;

	if (strlen(path) >= sizeof(at.sun_path))
		return fail_set(f, FAIL_SYSTEM,
				"%s: a socket's path is at most %zu bytes long",
				path, sizeof(at.sun_path) - 1);
	memcpy(at.sun_path, path, strlen(path));
	probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (probe < 0 || fd < 0)
		return fail_errno(f, FAIL_SYSTEM, "make a socket for", path);
	remove_stale(probe, &at);
	close(probe);
	if (!bind_at(fd, &at) || listen(fd, BACKLOG) != 0) {
		fail_errno(f, FAIL_SYSTEM, "listen at", path);
		close(fd);
		return false;
	}
	if (fd != LISTEN_FD && dup2(fd, LISTEN_FD) != LISTEN_FD)
		return fail_errno(f, FAIL_SYSTEM, "listen at", path);
	if (fd != LISTEN_FD)
		close(fd);
	return true;
}

bool fcgi_new(struct fcgi **c_r, struct fail *f)
{
	struct fcgi *c;
	int flags;

	if (!fcgi_check(f))
		return false;
	flags = fcntl(LISTEN_FD, F_GETFL);
	if (flags < 0 || fcntl(LISTEN_FD, F_SETFL, flags | O_NONBLOCK) != 0)
		return fail_errno(f, FAIL_SYSTEM, "set O_NONBLOCK on",
				  "descriptor 0");
	c = calloc(1, sizeof(*c));
	if (!c)
		bug("no memory for the FastCGI connection");
	if (FCGX_Init() != 0 || FCGX_InitRequest(&c->request, LISTEN_FD,
						 FCGI_FAIL_ACCEPT_ON_INTR)) {
		free(c);
		return fail_set(f, FAIL_SYSTEM, "libfcgi does not start");
	}
	*c_r = c;
	return true;
}

void fcgi_free(struct fcgi *c)
{
	if (!c)
		return;
	fcgi_finish(c);
	FCGX_Free(&c->request, 1);
	free(c);
}

bool fcgi_wait(struct fcgi *c, const sigset_t *mask, uint64_t timeout_ms)
{
	struct pollfd p = {.fd = LISTEN_FD, .events = POLLIN};
	struct timespec t = {.tv_sec = (time_t)(timeout_ms / 1000),
			     .tv_nsec = (long)(timeout_ms % 1000) * 1000000};

	(void)c;
	return ppoll(&p, 1, &t, mask) > 0;
}

enum fcgi_got fcgi_accept(struct fcgi *c, struct arena *a,
			  struct http_request *r, struct fail *f)
{
	struct reading g = {.a = a, .r = r, .f = f};

	*r = (struct http_request){.method = HTTP_OTHER};
	if (FCGX_Accept_r(&c->request) != 0)
		return FCGI_GOT_NONE;
	c->open = true;
	r->headers = arena_array(a, HTTP_HEADERS_MAX, sizeof(*r->headers));
	read_params(&g, c->request.envp);
	take_params(&g);
	return g.bad ? FCGI_GOT_BAD : FCGI_GOT_REQUEST;
}

size_t fcgi_read(struct fcgi *c, char *p, size_t n)
{
	int got;

	if (!c->open)
		return 0;
	if (n > PIECE_MAX)
		n = PIECE_MAX;
	got = FCGX_GetStr(p, (int)n, c->request.in);
	return got > 0 ? (size_t)got : 0;
}

bool fcgi_broken(const struct fcgi *c)
{
	return !c->open || FCGX_GetError(c->request.in) != 0;
}

bool fcgi_write(struct fcgi *c, struct sv bytes)
{
	while (c->open && bytes.n) {
		int n = bytes.n > PIECE_MAX ? PIECE_MAX : (int)bytes.n;

		if (FCGX_PutStr(bytes.p, n, c->request.out) != n)
			return false;
		bytes = sv_tail(bytes, (size_t)n);
	}
	return c->open;
}

void fcgi_abort(struct fcgi *c)
{
	static const char NO_RECORD[8];
	ssize_t n;

	if (!c->open)
		return;
	c->open = false;
	/* nginx takes the end of a connection for the end of an answer that
	 * has no length. It does not take a record of version 0. */
	FCGX_FFlush(c->request.out);
	n = write(c->request.ipcFd, NO_RECORD, sizeof(NO_RECORD));
	(void)n;
	FCGX_Free(&c->request, 1);
	if (FCGX_InitRequest(&c->request, LISTEN_FD, FCGI_FAIL_ACCEPT_ON_INTR))
		bug("libfcgi cannot begin anew");
}

void fcgi_finish(struct fcgi *c)
{
	if (!c->open)
		return;
	c->open = false;
	/* nginx asks to keep the connection only so that it notices an answer
	 * that breaks off; kept ones would pin this worker. */
	c->request.keepConnection = 0;
	FCGX_Finish_r(&c->request);
}

struct library fcgi_library(void)
{
	return (struct library){"libfcgi", FCGI_BUILT_VERSION, ""};
}
