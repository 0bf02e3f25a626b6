/* Requests to a Waybill service: the only file that knows libcurl. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/client.h"

#include <curl/curl.h>
#include <time.h>

#include "base/digest.h"
#include "base/text.h"
#include "wire/inflate.h"

enum {
	ANSWER_MAX = 64 << 20,
	PIECE_BYTES = 256 * 1024,
	CONNECT_S = 10,
	URL_MAX = 4096,
	KEY_MAX = 512,
};

struct client {
	CURL *curl;
	char url[URL_MAX]; /* without a slash at the end */
	char auth[KEY_MAX + 32];
	char error[CURL_ERROR_SIZE];
};

/* A request under way. */
struct sending {
	const struct client_request *r;
	struct client_answer *answer;
	struct sv rest;     /* of the body, or of what the source gave */
	struct buf packed;  /* of gzip */
	char *piece;        /* of a source */
	bool ended, broken; /* the source */
};

bool client_new(struct client **c_r, const struct client_conf *conf,
		struct fail *f)
{
	struct sv url = sv_of(conf->url);
	struct client *c;

	if (!sv_starts(url, SV("https://")) || url.n >= URL_MAX / 4)
		return fail_set(f, FAIL_USAGE,
				"--url must begin with https://");
	if (conf->key.n == 0 || conf->key.n > KEY_MAX)
		return fail_set(f, FAIL_USAGE,
				"the API key is empty or too "
				"long");
	while (url.n && url.p[url.n - 1] == '/')
		url.n--;
	c = calloc(1, sizeof(*c));
	if (!c || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		bug("libcurl does not start");
	c->curl = curl_easy_init();
	if (!c->curl)
		bug("libcurl does not start");
	snprintf(c->url, sizeof(c->url), "%.*s", SV_ARG(url));
	snprintf(c->auth, sizeof(c->auth), "Authorization: Bearer %.*s",
		 SV_ARG(conf->key));
	curl_easy_setopt(c->curl, CURLOPT_PROTOCOLS_STR, "https");
	curl_easy_setopt(c->curl, CURLOPT_HTTP_VERSION,
			 (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c->curl, CURLOPT_USERAGENT, PACKAGE "/" VERSION);
	curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, c->error);
	curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	if (conf->ca)
		curl_easy_setopt(c->curl, CURLOPT_CAINFO, conf->ca);
	*c_r = c;
	return true;
}

void client_free(struct client *c)
{
	if (!c)
		return;
	curl_easy_cleanup(c->curl);
	digest_wipe(c->auth, sizeof(c->auth));
	free(c);
}

void client_answer_release(struct client_answer *a)
{
	buf_release(&a->body);
}

/* The next piece of a body from its source. Each is a gzip member of its own:
 * several make one body. */
static bool refill(struct sending *s)
{
	size_t n = 0;

	if (s->ended || !s->r->source)
		return false;
	if (!s->r->source(s->r->source_arg, s->piece, PIECE_BYTES, &n)) {
		s->broken = true;
		return false;
	}
	s->ended = n == 0;
	s->rest = sv_from(s->piece, n);
	if (n && s->r->gzip) {
		buf_reset(&s->packed);
		inflate_pack(&s->packed, s->rest);
		s->rest = buf_sv(&s->packed);
	}
	return n > 0;
}

static size_t on_read(char *p, size_t size, size_t count, void *arg)
{
	struct sending *s = arg;
	size_t n = size * count;

	if (!s->rest.n)
		refill(s);
	if (s->broken)
		return CURL_READFUNC_ABORT;
	if (n > s->rest.n)
		n = s->rest.n;
	if (n)
		memcpy(p, s->rest.p, n);
	s->rest = sv_tail(s->rest, n);
	return n;
}

static size_t on_body(char *p, size_t size, size_t count, void *arg)
{
	struct sending *s = arg;

	buf_add(&s->answer->body, sv_from(p, size * count));
	return buf_ok(&s->answer->body) ? size * count : 0;
}

static size_t on_header(char *p, size_t size, size_t count, void *arg)
{
	struct sending *s = arg;
	struct sv value = sv_from(p, size * count), name;

	while (value.n &&
	       (value.p[value.n - 1] == '\n' || value.p[value.n - 1] == '\r'))
		value.n--;
	name = sv_cut(&value, ':');
	if (sv_eq_nocase(name, SV("retry-after")))
		s->answer->has_retry_after =
			text_u64(sv_trim(value), 0, UINT32_MAX,
				 &s->answer->retry_after_s);
	return size * count;
}

static struct curl_slist *add_line(struct curl_slist *list, const char *line)
{
	list = curl_slist_append(list, line);
	if (!list)
		bug("out of memory for headers");
	return list;
}

static struct curl_slist *headers(const struct client *c,
				  const struct client_request *r)
{
	struct curl_slist *list = add_line(NULL, "Expect:");
	char line[128], uuid[ID_UUID];

	if (c->auth[0])
		list = add_line(list, c->auth);
	if (r->correlation) {
		id_uuid(*r->correlation, uuid);
		snprintf(line, sizeof(line), "X-Correlation-Id: %s", uuid);
		list = add_line(list, line);
		list = add_line(list, "Prefer: wait=10");
	}
	if (r->content_type) {
		snprintf(line, sizeof(line), "Content-Type: %s",
			 r->content_type);
		list = add_line(list, line);
	}
	if (r->gzip)
		list = add_line(list, "Content-Encoding: gzip");
	if (r->source)
		list = add_line(list, "Transfer-Encoding: chunked");
	return list;
}

static void set_body(struct client *c, struct sending *s)
{
	const struct client_request *r = s->r;

	curl_easy_setopt(c->curl, CURLOPT_HTTPGET, 1L);
	if (!r->post)
		return;
	curl_easy_setopt(c->curl, CURLOPT_POST, 1L);
	curl_easy_setopt(c->curl, CURLOPT_READFUNCTION, on_read);
	curl_easy_setopt(c->curl, CURLOPT_READDATA, s);
	if (r->source) {
		s->piece = malloc(PIECE_BYTES);
		if (!s->piece)
			bug("out of memory for a piece");
	} else if (r->gzip) {
		inflate_pack(&s->packed, r->body);
		s->rest = buf_sv(&s->packed);
	} else {
		s->rest = r->body;
	}
	curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE,
			 r->source ? (curl_off_t)-1 : (curl_off_t)s->rest.n);
}

static enum client_got judge(const struct client *c, const struct sending *s,
			     CURLcode rc, struct fail *f)
{
	const char *why = c->error[0] ? c->error : curl_easy_strerror(rc);

	if (rc == CURLE_OK)
		return CLIENT_ANSWER;
	if (s->broken)
		return CLIENT_FAIL;
	fail_set(f, FAIL_SEND_LATER, "%s: %s", c->url, why);
	if (rc == CURLE_PEER_FAILED_VERIFICATION ||
	    rc == CURLE_SSL_CACERT_BADFILE || rc == CURLE_SSL_CERTPROBLEM ||
	    rc == CURLE_URL_MALFORMAT || rc == CURLE_UNSUPPORTED_PROTOCOL ||
	    !buf_ok(&s->answer->body)) {
		fail_set(f, FAIL_SEND_REFUSED, "%s: %s", c->url, why);
		return CLIENT_FAIL;
	}
	return CLIENT_AWAY;
}

static CURLcode perform(struct client *c, struct sending *s)
{
	struct curl_slist *list = headers(c, s->r);
	char url[2 * URL_MAX];
	CURLcode rc;
	long status = 0;

	snprintf(url, sizeof(url), "%s%s", c->url, s->r->path);
	curl_easy_setopt(c->curl, CURLOPT_URL, url);
	set_body(c, s);
	curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, list);
	curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, s);
	curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, s);
	curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_TIME,
			 (long)s->r->silence_s);
	c->error[0] = '\0';
	rc = curl_easy_perform(c->curl);
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	s->answer->status = (int)status;
	curl_slist_free_all(list);
	return rc;
}

enum client_got client_send(struct client *c, const struct client_request *r,
			    struct client_answer *answer_r, struct fail *f)
{
	struct sending s = {.r = r, .answer = answer_r};
	enum client_got got;

	*answer_r = (struct client_answer){0};
	buf_init(&answer_r->body, ANSWER_MAX);
	buf_init(&s.packed, SIZE_MAX / 4);
	got = judge(c, &s, perform(c, &s), f);
	buf_release(&s.packed);
	free(s.piece);
	return got;
}

/* The first certificate is the service's own. */
static uint64_t expiry(CURL *curl)
{
	struct curl_certinfo *info = NULL;
	struct curl_slist *line;
	struct tm tm = {0};

	if (curl_easy_getinfo(curl, CURLINFO_CERTINFO, &info) != CURLE_OK ||
	    !info || info->num_of_certs < 1)
		return 0;
	for (line = info->certinfo[0]; line; line = line->next) {
		struct sv value = sv_of(line->data), name = sv_cut(&value, ':');

		if (sv_eq(name, SV("Expire date")) &&
		    strptime(value.p, "%b %d %H:%M:%S %Y", &tm))
			return (uint64_t)timegm(&tm) * 1000;
	}
	return 0;
}

bool client_probe(const char *url, const char *ca, const char *path,
		  struct client_probe *probe_r, struct fail *f)
{
	struct client_conf conf = {.url = url, .ca = ca, .key = SV("none")};
	struct client_request r = {.path = path, .silence_s = CONNECT_S};
	struct client_answer answer;
	struct client *c;
	bool ok;

	if (!client_new(&c, &conf, f))
		return false;
	curl_easy_setopt(c->curl, CURLOPT_CERTINFO, 1L);
	c->auth[0] = '\0';
	ok = client_send(c, &r, &answer, f) == CLIENT_ANSWER;
	*probe_r = (struct client_probe){answer.status, expiry(c->curl)};
	client_answer_release(&answer);
	client_free(c);
	return ok;
}

struct library client_library(void)
{
	return (struct library){"libcurl", LIBCURL_VERSION,
				curl_version_info(CURLVERSION_NOW)->version};
}
