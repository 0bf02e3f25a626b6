/* FastCGI: the only place that knows libfcgi.
 *
 *	fcgi_init(f)				once a process
 *	while (fcgi_wait(&stop, ...)) {
 *		switch (fcgi_accept(c, &arena, &request, f)) ...
 *		fcgi_read(c, buf, n)		the body, piece by piece
 *		fcgi_send(c, status, headers, body)
 *		fcgi_finish(c)			flushed and closed: may now
 *leave
 *	}
 *
 * The listening socket is file descriptor 0, as the FastCGI specification,
 * supervisord and spawn-fcgi have it. It is made non-blocking: a worker waits
 * in ppoll(), where signals are let in atomically, and never sits in an
 * accept() that another worker won.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_FCGI_H
#define WAYBILL_FCGI_H

#include <signal.h>

#include "wire/http.h"

struct fcgi; /* one a process */

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

/* Up to n bytes of the body; 0 at its end. */
size_t fcgi_read(struct fcgi *c, char *p, size_t n);

/* Bytes of the answer, header lines first, as CGI has them ("Status: 200 OK"
 * CRLF ... CRLF body). false: the other side is gone. */
MUST_CHECK bool fcgi_write(struct fcgi *c, struct sv bytes);

void fcgi_finish(struct fcgi *c);

#endif
