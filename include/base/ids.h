/* Sixteen-byte ids: ours (UUID v7, so that they sort by time) and the
 * correlation ids partners send (any UUID, or a ULID).
 *
 *	struct id id = id_new(db_now_ms);
 *	id_hex(id, text);			32 lower-case hex digits
 *	if (!id_parse_correlation(sv, &id)) 400
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYBILL_IDS_H
#define WAYBILL_IDS_H

#include "base/sv.h"

struct id {
	uint8_t b[16];
};

enum { ID_HEX = 33, ID_UUID = 37 }; /* bytes with the terminator */

/* A v7 id for this wall time. Ids made by one process never go back, even
 * if the time does. */
struct id id_new(uint64_t wall_ms);
uint64_t id_wall_ms(struct id id); /* the time inside a v7 id */

bool id_eq(struct id a, struct id b);
void id_hex(struct id id, char out[ID_HEX]);
void id_uuid(struct id id, char out[ID_UUID]);              /* 8-4-4-4-12 */
MUST_CHECK bool id_parse_hex(struct sv s, struct id *id_r); /* 32 digits */

/* A UUID (8-4-4-4-12) or a ULID (26 of Crockford's base32), any case. */
MUST_CHECK bool id_parse_correlation(struct sv s, struct id *id_r);

#endif
