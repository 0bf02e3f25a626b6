/* The body of a request, piece by piece. B1 to B4 stand in the header.
 *
 * Nothing is read before the headers are found right, and never more than
 * the limit: nginx holds the body, so leaving it unread harms nobody.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/body.h"

#include <inttypes.h>

#include "base/clock.h"
#include "gate/reqkey.h"
#include "wire/inflate.h"

enum { PIECE = 64 * 1024, EXTEND_BYTES = 1 << 20 };

struct body {
	struct inflate *z; /* NULL: it is not packed */
	struct digest_state *digest;
	uint64_t limit;
	uint64_t came, unpacked;
	uint64_t extended_at; /* of unpacked and came together */
	bool ended;
	char *out; /* PIECE bytes, if packed */
	char in[PIECE];
};

static bool too_large(uint64_t limit, struct fail *f)
{
	return fail_set(f, FAIL_BODY_TOO_LARGE,
			"the body is larger than %" PRIu64 " bytes", limit);
}

static bool check_encoding(struct exchange *x, bool *gzip_r, struct fail *f)
{
	struct sv header;

	if (!http_header(x->http, SV("content-encoding"), &header, f))
		return false;
	*gzip_r = sv_eq_nocase(header, SV("gzip"));
	if (*gzip_r || header.n == 0 || sv_eq_nocase(header, SV("identity")))
		return true;
	return fail_set(f, FAIL_ENCODING,
			"Content-Encoding must be gzip, or absent");
}

static void open_gzip(struct exchange *x, struct body *b)
{
	b->out = arena_reserve(x->arena, PIECE);
	b->z = inflate_new(&(struct inflate_limits){
		.unpacked_max = b->limit,
		.ratio_max = x->conf->gzip_ratio_max,
		.ratio_floor = x->conf->gzip_bomb_floor_bytes,
		.packed_bytes =
			x->http->has_length ? x->http->content_length : 0,
	});
}

bool body_open(struct exchange *x, uint64_t limit, struct fail *f)
{
	struct body *b;
	bool gzip;

	if (x->stream)
		bug("a body is opened twice");
	if (!check_encoding(x, &gzip, f))
		return false;
	if (x->http->has_length && x->http->content_length > limit)
		return too_large(limit, f);
	b = arena_reserve(x->arena, sizeof(*b));
	memset(b, 0, offsetof(struct body, in));
	b->limit = limit;
	b->digest = reqkey_digest(x->http->method_text, x->http->path,
				  x->http->query);
	x->stream = b;
	if (gzip)
		open_gzip(x, b);
	return true;
}

void body_close(struct exchange *x)
{
	uint8_t unused[DIGEST_BYTES];

	if (!x->stream)
		return;
	if (!x->stream->ended)
		digest_free(x->stream->digest, unused);
	inflate_free(x->stream->z);
	x->stream = NULL;
}

/* B4. Not for every piece: setting a timer is a call of the system's. */
static bool get_on(struct exchange *x, struct body *b, struct fail *f)
{
	if (b->came + b->unpacked - b->extended_at < EXTEND_BYTES)
		return true;
	b->extended_at = b->came + b->unpacked;
	if (clock_mono_ms() - x->started_us / 1000 <
	    x->conf->intake_deadline_ms) {
		exchange_extend(x, x->conf->request_deadline_ms);
		return true;
	}
	return fail_set(f, FAIL_REQUEST_TIMEOUT,
			"the body could not be stored in time "
			"(intake_deadline)");
}

/* What came into b->in; 0 at the end. A body that broke off is told from one
 * that ended by the length it promised, or by how the stream ended. */
static bool read_in(struct exchange *x, struct body *b, size_t *got_r,
		    struct fail *f)
{
	*got_r = fcgi_read(x->fcgi, b->in, sizeof(b->in));
	b->came += *got_r;
	if (*got_r)
		return get_on(x, b, f);
	if (x->http->has_length && b->came != x->http->content_length)
		return fail_set(f, FAIL_BODY_CUT,
				"%" PRIu64 " of %" PRIu64 " bytes came",
				b->came, x->http->content_length);
	if (fcgi_broken(x->fcgi))
		return fail_set(f, FAIL_BODY_CUT,
				"the connection ended after %" PRIu64 " bytes",
				b->came);
	return true;
}

static enum body_got next_plain(struct exchange *x, struct body *b,
				struct sv *piece_r, struct fail *f)
{
	size_t n;

	if (!read_in(x, b, &n, f))
		return BODY_FAIL;
	*piece_r = sv_from(b->in, n);
	return n ? BODY_PIECE : BODY_END;
}

static enum body_got next_gzip(struct exchange *x, struct body *b,
			       struct sv *piece_r, struct fail *f)
{
	for (;;) {
		size_t n;

		switch (inflate_next(b->z, b->out, PIECE, &n, f)) {
		case INFLATE_SOME:
			*piece_r = sv_from(b->out, n);
			return get_on(x, b, f) ? BODY_PIECE : BODY_FAIL;
		case INFLATE_END:
			return BODY_END;
		case INFLATE_FAIL:
			return BODY_FAIL;
		case INFLATE_MORE:
			break;
		}
		if (!read_in(x, b, &n, f))
			return BODY_FAIL;
		inflate_feed(b->z, sv_from(b->in, n), n == 0);
	}
}

static void end(struct exchange *x, struct body *b)
{
	digest_free(b->digest, x->fingerprint);
	b->ended = true;
	x->has_fingerprint = true;
	x->body_bytes = b->unpacked;
}

enum body_got body_next(struct exchange *x, struct sv *piece_r, struct fail *f)
{
	struct body *b = x->stream;
	enum body_got got;

	if (b->ended)
		return BODY_END;
	got = b->z ? next_gzip(x, b, piece_r, f) : next_plain(x, b, piece_r, f);
	if (got == BODY_END)
		end(x, b);
	if (got != BODY_PIECE)
		return got;
	b->unpacked += piece_r->n;
	digest_add(b->digest, *piece_r);
	if (b->unpacked <= b->limit)
		return BODY_PIECE;
	too_large(b->limit, f);
	return BODY_FAIL;
}

bool body_skip(struct exchange *x, struct fail *f)
{
	enum body_got got;
	struct sv piece;

	do
		got = body_next(x, &piece, f);
	while (got == BODY_PIECE);
	return got == BODY_END;
}
