/* The Prefer header (RFC 7240), of which one preference matters here: wait.
 *
 * The header may be sent several times and hold several preferences; those we
 * do not know are skipped, malformed ones too, as the RFC has it. Of several
 * `wait` the first counts.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_PREFER_H
#define WAYBILL_PREFER_H

#include "wire/http.h"

/* The seconds of `wait`; *has_r false and *seconds_r left alone if it was not
 * sent. Not a whole number from 0 to max: FAIL_BAD_HEADER, because waiting
 * for another time than was asked for would not be noticed. */
MUST_CHECK bool prefer_wait(const struct http_request *r, uint64_t max,
			    bool *has_r, uint64_t *seconds_r, struct fail *f);

#endif
