/* FastCGI: the only place that knows libfcgi.
 *
 *	fcgi_check(f)				once, before fork
 *	fcgi_new(&c, f)				in each worker
 *	while (!leaving)
 *		if (fcgi_wait(c, &mask, ms)) {
 *			fcgi_accept(c, &arena, &request, f)
 *			fcgi_read(c, p, n)	the body, piece by piece
 *			fcgi_write(c, bytes)
 *			fcgi_finish(c)		flushed and closed: may leave
 *		}
 *	fcgi_free(c)
 *
 * The listening socket is file descriptor 0, as the FastCGI specification,
 * supervisord and spawn-fcgi have it. It is made non-blocking: a worker waits
 * in ppoll(), where signals are let in atomically, and never sits in an
 * accept() that another worker won.
 *
 * Path and query come from REQUEST_URI. Headers are the HTTP_* parameters, a
 * repeated one as two entries; content-type is the client's own header where
 * nginx passes it (HTTP_CONTENT_TYPE), else CONTENT_TYPE. Also read, each of
 * them once at most: REQUEST_METHOD, CONTENT_LENGTH, REMOTE_ADDR,
 * WAYBILL_REQUEST_ID, WAYBILL_LISTENER (`admin` is the admin listener,
 * `internal` what nginx asks for itself, all else public) and
 * WAYBILL_CLIENT_CERT.
 *
 * libfcgi hands parameters out as C strings: of a value that holds a NUL only
 * what stands before it is seen. nginx lets no NUL through.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_FCGI_H
#define WAYBILL_FCGI_H

#include "base/base.h" /* before any other: it has config.h */

#include <signal.h>

#include "base/library.h"
#include "wire/http.h"

struct fcgi; /* one a process */

/* Make descriptor 0 a unix socket that listens at `path`, mode 0660. A socket
 * left there by a process that is gone is replaced. */
MUST_CHECK bool fcgi_listen(const char *path, struct fail *f);

/* Descriptor 0 is a listening socket; else f says how to start the program. */
MUST_CHECK bool fcgi_check(struct fail *f);

MUST_CHECK bool fcgi_new(struct fcgi **c_r, struct fail *f);
void fcgi_free(struct fcgi *c);

/* Wait for a connection with `mask` as the signal mask while waiting. true:
 * one may be there. false: a signal came or the time is over. */
bool fcgi_wait(struct fcgi *c, const sigset_t *mask, uint64_t timeout_ms);

enum fcgi_got {
	FCGI_GOT_REQUEST, /* *r is filled; answer it, then fcgi_finish() */
	FCGI_GOT_BAD,     /* f says what is wrong; *r holds what was readable;
			     answer it, then fcgi_finish() */
	FCGI_GOT_NONE,    /* another worker was faster, or it went away */
};
enum fcgi_got fcgi_accept(struct fcgi *c, struct arena *a,
			  struct http_request *r, struct fail *f);

/* Up to n bytes of the body; 0 at its end, and also where it broke off:
 * compare the sum with content_length. */
size_t fcgi_read(struct fcgi *c, char *p, size_t n);

/* After a 0: the connection ended before the body did. */
bool fcgi_broken(const struct fcgi *c);

/* Bytes of the answer, header lines first, as CGI has them ("Status: 200 OK"
 * CRLF ... CRLF body). false: the other side is gone. */
MUST_CHECK bool fcgi_write(struct fcgi *c, struct sv bytes);

/* End the connection without the end of the answer: the caller sees that it
 * broke off. */
void fcgi_abort(struct fcgi *c);

/* The answer is out and the connection closed. Nothing happens if there is
 * none, so that it may be called twice. */
void fcgi_finish(struct fcgi *c);

/* libfcgi cannot be asked; configure knows what it built with. */
struct library fcgi_library(void);

#endif
