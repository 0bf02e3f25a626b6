/* A stand-in for the service: says what it was asked, for tests of the
 * processes around it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pipeline.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/fault.h"

struct service {
	uint64_t answered;
};

bool service_new(struct service **s_r, const struct conf *c, struct fail *f)
{
	(void)c;
	(void)f;
	*s_r = calloc(1, sizeof(**s_r));
	if (!*s_r)
		bug("no memory for the service");
	return true;
}

void service_free(struct service *s)
{
	free(s);
}

static uint64_t read_body(struct fcgi *c)
{
	char piece[16384];
	uint64_t sum = 0;
	size_t n;

	while ((n = fcgi_read(c, piece, sizeof(piece))) > 0)
		sum += n;
	return sum;
}

static void add_request(struct buf *b, const struct http_request *r)
{
	buf_addf(b, ",\"method\":\"%s\",\"admin\":%s,\"path\":",
		 http_method_name(r->method), r->admin ? "true" : "false");
	buf_add_json(b, r->path);
	buf_add_text(b, ",\"query\":");
	buf_add_json(b, r->query);
	buf_addf(b, ",\"length\":%" PRIu64 ",\"headers\":[", r->content_length);
	for (size_t i = 0; i < r->header_count; i++) {
		buf_add_text(b, i ? ",[" : "[");
		buf_add_json(b, r->headers[i].name);
		buf_add_byte(b, ',');
		buf_add_json(b, r->headers[i].value);
		buf_add_byte(b, ']');
	}
	buf_add_text(b, "]}\n");
}

void service_answer(struct service *s, struct fcgi *c, struct arena *a,
		    enum fcgi_got got, struct http_request *r, struct fail *f)
{
	int status = got == FCGI_GOT_BAD ? fail_info(f->code)->status : 200;
	uint64_t body = read_body(c);
	struct buf b;
	bool sent;

	(void)a;
	fault_at("serve.before");
	buf_init(&b, 1 << 20);
	buf_addf(&b,
		 "Status: %d %s\r\nContent-Type: application/json\r\n\r\n"
		 "{\"pid\":%d,\"answered\":%" PRIu64 ",\"body\":%" PRIu64
		 ",\"fail\":\"%s\",\"detail\":",
		 status, http_reason(status), (int)getpid(), ++s->answered,
		 body, got == FCGI_GOT_BAD ? fail_info(f->code)->name : "");
	buf_add_json(&b, sv_of(f->detail));
	add_request(&b, r);
	sent = fcgi_write(c, buf_sv(&b));
	(void)sent; /* whoever asked is gone */
	buf_release(&b);
}
